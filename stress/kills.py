"""Kill sweeps with SIGKILL at random moments and resume them: the table must be that of one that never was killed.

    python stress/kills.py [--kills 100] [--seed 0]

A sweep that comes to its end is compared and the next one begins, until there were that many kills; the last one then
runs to its end. No run that had ended may be lost or trained again. The exit code is 1 if a table differs.
"""

import argparse
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from helpers.processes import started
from helpers.small_sweep import numbers

from gradwalk.sweep import Spec, Store, run_sweep

SPEC = """
data = "digits"
examples = 300
params = 3e3
depth = [3, 4, 5, 6, 7, 8]
gain = [1.0, 1.2]
epochs = 15
[[runs]]
seed = [0, 1]
[[runs]]
optimizer = "adam"
[[runs]]
depth = 5
rate_in = 1e38
rate_out = 1e38
"""


def ended(folder: Path) -> dict[str, Any]:
    """Return the runs that have ended, with everything that would change if one were trained again."""
    try:
        with Store(folder) as store:
            results = store.results()
    except FileNotFoundError:
        return {}
    over = (result for result in results if result.status in ("done", "diverged"))
    return {result.identity: (result.starts, result.ended, tuple(result.epochs)) for result in over}


def killed(spec: Path, folder: Path, patience: float) -> bool:
    """Start the sweep, kill it after that many seconds, and return whether it had not come to its end."""
    process = started(["sweep", spec, "--out", folder, "--threads", "1", "--save-every", "0.05"])
    process.join(patience)
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL


def main() -> int:
    """Kill and resume, compare, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    chance, kills, sweeps, different, lost = random.Random(given.seed), 0, 0, 0, 0
    with tempfile.TemporaryDirectory() as name:
        spec = Path(name) / "spec.toml"
        spec.write_text(SPEC)
        began = time.monotonic()
        expected = numbers(run_sweep(Spec.load(spec), Path(name) / "whole", threads=1).results)
        whole = time.monotonic() - began
        while kills < given.kills:
            folder, kept = Path(name) / f"{sweeps}", {}
            while kills < given.kills and killed(spec, folder, chance.uniform(0, 0.5 + whole / 4)):
                kills += 1
                now = ended(folder)
                lost += {identity: now.get(identity) for identity in kept} != kept
                kept = now
            different += numbers(run_sweep(Spec.load(spec), folder, threads=1).results) != expected
            sweeps += 1
    print(
        f"{kills} kills in {sweeps} sweeps of {len(expected)} runs: {different} tables differ, {lost} lost ended runs"
    )
    return int(bool(different or lost))


if __name__ == "__main__":
    sys.exit(main())

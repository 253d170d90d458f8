"""Kill the driver of a sweep on Ray with SIGKILL: its cluster ends too, and the sweep resumes with the same table.

    python stress/ray_drivers.py [--kills 3]

The driver starts a cluster of its own and is killed while runs train. The processes that it started, and those that
they started, must end by themselves; the sweep is then resumed without Ray. The exit code is 1 if a process is left
after 20 seconds, or the table differs.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from helpers.processes import started, write_at_once
from helpers.small_sweep import numbers

from gradwalk.sweep import Spec, Store, run_sweep

SPEC = 'data = "digits"\nparams = 1e5\ndepth = 4\nepochs = 300\nseed = [0, 1]\n'
PATIENCE = 300.0  # seconds for Ray to start
LEFT_BEHIND = 20.0  # seconds after which a process counts as left behind


def training(folder: Path) -> bool:
    """Return whether a run of the sweep has finished an epoch and has not ended."""
    try:
        with Store(folder) as store:
            return any(result.epochs and result.status == "running" for result in store.results())
    except FileNotFoundError:
        return False


def killed(spec: Path, folder: Path) -> tuple[int, float, int]:
    """Kill a driver whose runs train; return the processes it had, the seconds until they ended, and those left."""
    words = ["sweep", spec, "--out", folder, "--threads", "1", "--engine", "ray", "--save-every", "0.1"]
    driver = started(words, os.devnull, write_at_once)
    deadline = time.monotonic() + PATIENCE
    while not training(folder) and driver.is_alive() and time.monotonic() < deadline:
        time.sleep(0.1)
    family = psutil.Process(driver.pid).children(recursive=True) if driver.is_alive() else []  # it came to its end
    began = time.monotonic()
    driver.kill()
    driver.join()
    _, left = psutil.wait_procs(family, timeout=LEFT_BEHIND)
    for process in left:
        process.kill()
    return len(family), time.monotonic() - began, len(left)


def main() -> int:
    """Kill, resume, compare, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=3)
    given = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        spec = Path(name) / "spec.toml"
        spec.write_text(SPEC)
        expected = numbers(run_sweep(Spec.load(spec), Path(name) / "whole", threads=1).results)
        for number in range(given.kills):
            folder = Path(name) / f"{number}"
            processes, seconds, left = killed(spec, folder)
            same = numbers(run_sweep(Spec.load(spec), folder, threads=1).results) == expected
            print(
                f"kill {number + 1}: {processes} processes, {left} left after {seconds:.1f} s; table "
                + ("identical" if same else "DIFFERS"),
                flush=True,
            )
            wrong += bool(left) or not same or processes < 3  # a cluster has at least that many
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

"""What spec, store and scheduling add to a sweep of 200 short runs.

The other side trains the same runs in the same stacks with `gradwalk.train.train` alone, and keeps nothing. Both sides
take turns in one run, and their numbers are compared first. The ratio of the two is what a user would see, with the
noise of the machine in it; the share is counted from within, without that noise: all time of the sweep that is not
spent inside `train`, plus all that is spent there in listening to it, loading the data set apart.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from setting import line, setting

from gradwalk.sweep import Spec, engine, run_sweep, session
from gradwalk.sweep.record import Recorder
from gradwalk.sweep.stacks import jobs
from gradwalk.train import train

SPEC = """
data = "digits"
depth = [8, 16]
params = 3e4
gain = [0.95, 1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.35, 1.4]
rate_in = [1e-3, 1e-2]
epochs = 5
seed = [0, 1, 2, 3, 4]
"""
LISTENED = ("began", "stepped", "measured", "ended", "failed")


class Clock:
    """Adds up the seconds that are spent inside functions."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, timed."""

        def run(*arguments: Any, **options: Any) -> Any:
            start = time.perf_counter()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds += time.perf_counter() - start

        return run


def direct(spec: Spec, threads: int) -> tuple[float, dict[str, Any]]:
    """Return seconds and numbers of the runs trained by `train` alone; their stacks are made before the clock runs."""
    entries, data = session.enlisted(spec)
    stacks, found = jobs(entries, data, threads), {}
    start = time.perf_counter()
    for job in stacks:
        for identity, outcome in zip(job.identities, train(job.runs, job.data, threads=threads), strict=True):
            found[identity] = outcome.epochs
    return time.perf_counter() - start, found


def swept(spec: str, threads: int) -> tuple[float, float, dict[str, Any]]:
    """Return seconds of the whole sweep, seconds of it that are not training, and its numbers."""
    inside, listening, loading = Clock(), Clock(), Clock()
    true = engine.train, session.load, {name: getattr(Recorder, name) for name in LISTENED}
    engine.train, session.load = inside.timed(engine.train), loading.timed(session.load)
    for name in LISTENED:
        setattr(Recorder, name, listening.timed(getattr(Recorder, name)))
    try:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            summary = run_sweep(Spec.load(spec), Path(folder), threads=threads)
            seconds = time.perf_counter() - start
    finally:
        engine.train, session.load = true[:2]
        for name, method in true[2].items():
            setattr(Recorder, name, method)
    outside = seconds - loading.seconds - inside.seconds
    found = {each.identity: each.epochs for each in summary.results}
    return seconds - loading.seconds, outside + listening.seconds, found


def without_clocks(found: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers without the seconds that they took."""
    return {identity: [replace(each, seconds=0.0) for each in epochs] for identity, epochs in found.items()}


def main() -> None:
    """Compare the numbers, then take turns, and print the ratios and shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=setting()["cores"])
    parser.add_argument("--json", help="also write the rounds there")
    options = parser.parse_args()
    spec = Spec.load(SPEC)
    _, alone = direct(spec, options.threads)
    _, _, kept = swept(SPEC, options.threads)
    assert without_clocks(alone) == without_clocks(kept), "the sweep has other numbers"
    print(f"{line()}; {len(alone)} runs on {options.threads} threads")
    rounds = []
    for _ in range(options.rounds):
        plain, _ = direct(spec, options.threads)
        whole, added, _ = swept(SPEC, options.threads)
        rounds.append({"train": plain, "sweep": whole, "ratio": whole / plain, "share": added / whole})
        print(
            f"train alone {plain:6.2f} s   sweep {whole:6.2f} s   ratio {whole / plain:.3f}   "
            f"spec, store and scheduling {added:.3f} s, {100 * added / whole:.2f} %",
            flush=True,
        )
    for name in ("ratio", "share"):
        print(f"median {name}: {statistics.median(each[name] for each in rounds):.4f}")
    if options.json:
        Path(options.json).write_text(json.dumps({"setting": setting(), "rounds": rounds}, indent=1))


if __name__ == "__main__":
    main()

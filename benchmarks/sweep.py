"""What spec, store and scheduling add to a sweep of 200 short runs.

The other side trains the same runs in the same stacks with `gradwalk.train.train` alone, and keeps nothing. Both sides
take turns in one run, and their numbers are compared first. The ratio of the two is what a user would see, with the
noise of the machine in it; the share is counted from within, without that noise: all time of the sweep that is not
spent inside `train`, plus all that is spent there in listening to it, loading the data set apart.
"""

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from setting import Answer, Spread, Table, main

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
CORES = os.cpu_count() or 1
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


def direct(spec: Spec) -> tuple[float, dict[str, Any]]:
    """Return seconds and numbers of the runs trained by `train` alone; their stacks are made before the clock runs."""
    entries, data = session.enlisted(spec)
    stacks, found = jobs(entries, data, CORES), {}
    start = time.perf_counter()
    for job in stacks:
        for identity, outcome in zip(job.identities, train(job.runs, job.data, threads=CORES), strict=True):
            found[identity] = outcome.epochs
    return time.perf_counter() - start, found


def swept(spec: str) -> tuple[float, float, dict[str, Any]]:
    """Return seconds of the whole sweep, seconds of it that are not training, and its numbers."""
    inside, listening, loading = Clock(), Clock(), Clock()
    true = engine.train, session.load, {name: getattr(Recorder, name) for name in LISTENED}
    engine.train, session.load = inside.timed(engine.train), loading.timed(session.load)
    for name in LISTENED:
        setattr(Recorder, name, listening.timed(getattr(Recorder, name)))
    try:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            summary = run_sweep(Spec.load(spec), Path(folder), threads=CORES)
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


def measure(quick: bool) -> Answer:
    """Compare the numbers, then take turns."""
    spec = Spec.load(SPEC)
    _, alone = direct(spec)
    _, _, kept = swept(SPEC)
    assert without_clocks(alone) == without_clocks(kept), "the sweep has other numbers"
    heads = ("train alone, s", "sweep, s", "sweep / train alone", "spec, store and scheduling, share of the sweep")
    answer = Answer([Table(f"A sweep of {len(alone)} short runs", heads)])
    for _ in range(1 if quick else 5):
        plain, _ = direct(spec)
        whole, added, _ = swept(SPEC)
        answer.numbers.append({"train": plain, "sweep": whole, "ratio": whole / plain, "share": added / whole})
    told = {key: Spread.of([each[key] for each in answer.numbers]) for key in answer.numbers[0]}
    answer.tables[0].add(*told.values())
    share = told["share"].median
    answer.aim("spec, store and scheduling less than 2 % of a sweep", f"{100 * share:.2f} %", share < 0.02)
    return answer


if __name__ == "__main__":
    main(__doc__, measure)

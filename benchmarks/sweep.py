"""The overhead of spec, store and scheduling in a sweep of 200 short runs.

The part `numbers` also trains the same runs in the same stacks with `gradwalk.train.train` alone, which stores nothing,
and compares the numbers. The difference of the durations would be lost in the noise of the machine, so the part `share`
measures inside the sweep, in processor time, which other programs disturb less, after one sweep that is not counted:
what the main thread spends outside `train` and in the sweep's event handlers, relative to the processor time of the
sweep per core, which is its duration on a machine of its own. The data set is loaded beforehand; to release the memory
of trained networks is part of `train`.
"""

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from setting import Answer, Spread, Table, main, number

from gradwalk.data import Datasets
from gradwalk.sweep import Spec, engine, run_sweep
from gradwalk.sweep.entry import resolve
from gradwalk.sweep.record import Recorder
from gradwalk.sweep.stacks import make_jobs
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
PARTS = ("numbers", "share")
EVENTS = ("began", "stepped", "epoch_ended", "ended", "failed")


class Clock:
    """Accumulates the seconds of processor time that this thread spends inside functions.

    during: another clock; only calls made inside its functions count.
    """

    def __init__(self, during: "Clock | None" = None) -> None:
        self.seconds, self.running, self.during = 0.0, False, during

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its time added to the clock."""

        def run(*arguments: Any, **options: Any) -> Any:
            if self.during is not None and not self.during.running:
                return function(*arguments, **options)
            start, self.running = time.thread_time(), True
            try:
                return function(*arguments, **options)
            finally:
                self.seconds, self.running = self.seconds + time.thread_time() - start, False

        return run


def direct(spec: Spec, datasets: Datasets) -> tuple[float, dict[str, Any]]:
    """Return the seconds and numbers of the runs trained by `train` alone; stacks are made before the clock runs."""
    entries, data = resolve(spec, datasets)
    stacks, numbers = make_jobs(entries, data, CORES), {}
    start = time.perf_counter()
    for job in stacks:
        for identity, outcome in zip(job.identities, train(job.runs, job.data, threads=CORES), strict=True):
            numbers[identity] = outcome.epochs
    return time.perf_counter() - start, numbers


def trained(*arguments: Any, **options: Any) -> None:
    """Train and release the networks."""
    train(*arguments, **options)


def swept(spec: str, datasets: Datasets) -> tuple[float, float, dict[str, Any]]:
    """Return the seconds of the whole sweep, the share of it that is not training, and its numbers."""
    inside = Clock()
    listening = Clock(during=inside)  # events outside `train` are in the rest already
    original = engine.train, {name: getattr(Recorder, name) for name in EVENTS}
    engine.train = inside.timed(trained)
    for name in EVENTS:
        setattr(Recorder, name, listening.timed(getattr(Recorder, name)))
    try:
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter(), time.thread_time(), time.process_time()
            summary = run_sweep(Spec.load(spec), Path(folder), threads=CORES, datasets=datasets)
            now = time.perf_counter(), time.thread_time(), time.process_time()
    finally:
        engine.train = original[0]
        for name, method in original[1].items():
            setattr(Recorder, name, method)
    numbers = {result.identity: result.epochs for result in summary.results}
    seconds, main_thread, processor = (after - before for before, after in zip(start, now, strict=True))
    own = main_thread - inside.seconds + listening.seconds
    return seconds, own / (processor / CORES), numbers


def untimed(numbers: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers without the seconds that they took."""
    return {identity: [replace(epoch, seconds=0.0) for epoch in epochs] for identity, epochs in numbers.items()}


def compare(answer: Answer, spec: Spec, datasets: Datasets) -> None:
    """Train without a sweep and in one, compare the numbers, and record both durations."""
    plain, alone = direct(spec, datasets)
    whole, _, kept = swept(SPEC, datasets)
    assert untimed(alone) == untimed(kept), "the numbers of the sweep differ"
    answer.tables[1].add(number(plain), number(whole))


def measure(quick: bool, parts: Sequence[str]) -> Answer:
    """Compare the numbers, or measure the share after a sweep that does not count, or both."""
    spec, datasets = Spec.load(SPEC), Datasets()
    shares = Table(
        f"A sweep of {spec.count} short runs", ("sweep, s", "spec, store and scheduling, share of the sweep")
    )
    answer = Answer([shares, Table("Once each, with numbers that agree", ("train alone, s", "sweep, s"))])
    if "numbers" in parts:
        compare(answer, spec, datasets)
    if "share" in parts:
        swept(SPEC, datasets)
        for _ in range(1 if quick else 2):
            whole, share, _ = swept(SPEC, datasets)
            answer.numbers.append({"sweep": whole, "share": share})
        spreads = [Spread.of([row[key] for row in answer.numbers]) for key in ("sweep", "share")]
        shares.add(*spreads)
        median = spreads[1].median
        answer.aim("spec, store and scheduling less than 1 % of a sweep", f"{100 * median:.2f} %", median < 0.01)
    return answer


if __name__ == "__main__":
    main(__doc__, measure, PARTS)

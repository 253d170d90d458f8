"""How fast networks train on this machine: measured with the first steps of each architecture."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import suppress

from gradwalk.progress import progress
from gradwalk.sweep.stacks import Job
from gradwalk.train import Watcher, train

_MOST_MEASURED = 12  # architectures; the others are estimated from the most similar one
_LONG_ENOUGH = 0.7  # seconds of steps per measurement


def speeds(jobs: Sequence[Job], threads: int, device: str) -> list[float]:
    """Return the operations per second of each job: measured, or that of the measured job with the closest size."""
    sizes = [math.log(job.epoch_flops / job.entries[0].run.depth) for job in jobs]
    by_size = sorted(range(len(jobs)), key=sizes.__getitem__)
    count = min(len(jobs), _MOST_MEASURED)
    chosen = [by_size[round(place * (len(jobs) - 1) / max(count - 1, 1))] for place in range(count)]
    measured: dict[int, float] = {}
    with progress("measuring the speed", count) as shown:
        for index in dict.fromkeys(chosen):
            measured[index] = _speed(jobs[index], threads, device)
            shown.advance()
    return [measured[min(measured, key=lambda index: abs(sizes[index] - size))] for size in sizes]


def _speed(job: Job, threads: int, device: str) -> float:
    """Return the operations per second of the job's steps in `train`, without the time to set it up.

    The rates are too small for a run to diverge, and a fixed gain does not have to be solved for.
    """
    settings = {"gain": 1.0, "weights": "gaussian", "rate_in": 1e-9, "rate_out": 1e-9, "epochs": 1_000_000}
    runs = [run.model_copy(update=settings) for run in job.runs]
    clock = _Clock(len(runs))
    with suppress(_EnoughError):
        train(runs, job.data, device=device, threads=threads, watcher=clock)
    return clock.speed * job.epoch_flops / job.steps


class _EnoughError(Exception):
    """The measurement is over."""


class _Clock(Watcher):
    """Measures network-steps per second, after one warm-up step of all networks."""

    def __init__(self, networks: int) -> None:
        self._warm, self._seen, self._start, self.speed = 2 * networks, 0, 0.0, 0.0

    def stepped(self, networks: int) -> None:
        now = time.monotonic()
        if self._seen < self._warm:
            self._start = now
        self._seen += networks
        counted, passed = self._seen - self._warm, now - self._start
        if counted >= self._warm and passed > _LONG_ENOUGH and not self.speed:
            self.speed = counted / passed
            raise _EnoughError

"""The recorder of a sweep: writes an engine's events to the store and reports progress."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from gradwalk.interrupts import Interrupts
from gradwalk.sweep.entry import Ending
from gradwalk.sweep.stacks import Job
from gradwalk.sweep.writer import Writer
from gradwalk.train import DamageWarning, Epoch
from gradwalk.train.checkpoint import remove_checkpoints

_REPORT_EVERY = 0.2  # seconds
_CHECK_EVERY = 1.0  # seconds between two looks at the folder
_LONG_ENOUGH = 1.0  # seconds of steps from which a speed is estimated


@dataclass(frozen=True)
class SweepProgress:
    """The progress of a sweep.

    done, diverged and failed are counted out of `total` runs, `kept` of which had ended before. steps: of all networks
    together since the start. speed: network-steps per second. left: estimated seconds, None while unknown.
    """

    total: int
    done: int
    diverged: int
    failed: int
    kept: int
    steps: int
    seconds: float
    speed: float
    left: float | None

    @property
    def ended(self) -> int:
        """The number of runs that this sweep will not train (again)."""
        return self.done + self.diverged + self.failed


Report = Callable[[SweepProgress], None]


class Recorder:
    """Listens to an engine: writes to the store, removes the checkpoints of runs that ended, reports progress."""

    def __init__(
        self,
        writer: Writer,
        jobs: Iterable[Job],
        counts: dict[str, int],
        checkpoints: Path,
        interrupts: Interrupts,
        report: Report | None,
    ) -> None:
        self._writer, self._checkpoints, self._interrupts = writer, checkpoints, interrupts
        self._report, self._counts, self._kept = report, counts, sum(counts.values())
        self._left = {entry.identity: job.epoch_flops * entry.run.epochs for job in jobs for entry in job.entries}
        self._epoch_flops = {entry.identity: job.epoch_flops for job in jobs for entry in job.entries}
        self._epochs = {entry.identity: entry.run.epochs for job in jobs for entry in job.entries}
        self._total = self._kept + len(self._left)
        self._steps, self._flops = 0, 0.0
        self._started, self._reported, self._checked = time.monotonic(), -math.inf, -math.inf
        self._stepping = math.inf  # when the first step was taken

    def began(self, job: Job) -> None:
        """Record that training of a job begins or resumes."""
        with self._interrupts.held():
            self._writer.began(self.unfinished(job).identities)
        self._report_progress()

    def restarted(self, identity: str, reason: str) -> None:
        """Warn of a damaged checkpoint."""
        warnings.warn(reason, DamageWarning, stacklevel=2)

    def stepped(self, job: Job, networks: int) -> None:
        """Count the steps."""
        now = time.monotonic()
        self._stepping = min(self._stepping, now)
        if now - self._checked > _CHECK_EVERY:
            self._checked = now
            self._writer.check_folder()
        self._steps += networks
        self._flops += networks * job.epoch_flops / job.steps
        self._report_progress()

    def epoch_ended(self, identity: str, epoch: Epoch) -> None:
        """Record a finished epoch, unless its run has ended."""
        if identity not in self._left:
            return
        with self._interrupts.held():
            self._writer.epoch_ended(identity, epoch)
        self._left[identity] = self._epoch_flops[identity] * (self._epochs[identity] - epoch.epoch)

    def ended(self, endings: Iterable[Ending]) -> None:
        """Record runs that are done or diverged, unless they are recorded already."""
        new = [ending for ending in endings if ending.identity in self._left]
        with self._interrupts.held():
            self._writer.ended(new)
            for ending in new:
                self._leave(ending.identity, "done" if ending.diverged is None else "diverged")
            remove_checkpoints(self._checkpoints, [ending.identity for ending in new])
        self._report_progress()

    def failed(self, identity: str, error: str) -> None:
        """Record a run that could not be trained."""
        with self._interrupts.held():
            self._writer.failed([identity], error)
            self._leave(identity, "failed")
        self._report_progress()

    def unfinished(self, job: Job) -> Job:
        """Return the part of a job whose runs have neither ended nor failed."""
        return job.part(entry for entry in job.entries if entry.identity in self._left)

    @property
    def progress(self) -> SweepProgress:
        """The progress of the sweep now."""
        now, left = time.monotonic(), sum(self._left.values())
        stepping = now - self._stepping if self._steps else 0.0
        known = stepping > _LONG_ENOUGH
        return SweepProgress(
            total=self._total,
            kept=self._kept,
            steps=self._steps,
            seconds=now - self._started,
            speed=self._steps / stepping if known else 0.0,
            left=left * stepping / self._flops if known else None,
            **self._counts,
        )

    def _leave(self, identity: str, status: str) -> None:
        self._counts[status] += 1
        del self._left[identity]

    def _report_progress(self) -> None:
        now = time.monotonic()
        if self._report is not None and (now - self._reported > _REPORT_EVERY or not self._left):
            self._reported = now
            self._report(self.progress)

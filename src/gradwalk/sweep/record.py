"""What happens in a sweep, written to the store and counted for whoever watches."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from gradwalk.sweep.interrupt import Interrupts
from gradwalk.sweep.stacks import Job
from gradwalk.sweep.writer import Ending, Writer
from gradwalk.train import Epoch
from gradwalk.train.checkpoint import checkpoint_path

_OFTEN = 0.2  # seconds between two reports
_LONG_ENOUGH = 1.0  # seconds of steps that tell a speed


@dataclass(frozen=True)
class Standing:
    """How far a sweep is.

    done, diverged and failed are of `total` runs, `kept` of them from before. steps: that networks took since the
    start, all together. speed: network-steps a second. left: seconds, None while it is not known.
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
        """Runs that will not be trained again by this command."""
        return self.done + self.diverged + self.failed


Report = Callable[[Standing], None]


class Recorder:
    """Listens to an engine: writes to the store, removes checkpoints of what has ended, reports the standing."""

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
        self._started, self._reported = time.monotonic(), -math.inf
        self._stepping = math.inf  # when the first step was taken

    def began(self, job: Job) -> None:
        """The runs of a job are being trained, or gone on with."""
        with self._interrupts.held():
            self._writer.began(self.unfinished(job).identities)
        self._tell()

    def stepped(self, job: Job, networks: int) -> None:
        """So many networks of a job took another step."""
        self._stepping = min(self._stepping, time.monotonic())
        self._steps += networks
        self._flops += networks * job.epoch_flops / job.steps
        self._tell()

    def measured(self, identity: str, epoch: Epoch) -> None:
        """A run finished an epoch."""
        if identity not in self._left:  # old news
            return
        with self._interrupts.held():
            self._writer.measured(identity, epoch)
        self._left[identity] = self._epoch_flops[identity] * (self._epochs[identity] - epoch.epoch)

    def ended(self, endings: Iterable[Ending]) -> None:
        """Runs are done, or diverged; what is known already is passed over."""
        new = [each for each in endings if each.identity in self._left]
        with self._interrupts.held():
            self._writer.ended(new)
            for each in new:
                self._leave(each.identity, "done" if each.diverged is None else "diverged")
        self._tell()

    def failed(self, identity: str, error: str) -> None:
        """A run could not be trained."""
        with self._interrupts.held():
            self._writer.failed([identity], error)
            self._counts["failed"] += 1
            del self._left[identity]
        self._tell()

    def unfinished(self, job: Job) -> Job:
        """Return what is left of a job."""
        return job.part(entry for entry in job.entries if entry.identity in self._left)

    @property
    def standing(self) -> Standing:
        """How far the sweep is now."""
        now, left = time.monotonic(), sum(self._left.values())
        stepping = now - self._stepping if self._steps else 0.0
        known = stepping > _LONG_ENOUGH
        return Standing(
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
        checkpoint_path(self._checkpoints, identity).unlink(missing_ok=True)

    def _tell(self) -> None:
        now = time.monotonic()
        if self._report is not None and (now - self._reported > _OFTEN or not self._left):
            self._reported = now
            self._report(self.standing)

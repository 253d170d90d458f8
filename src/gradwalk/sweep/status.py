"""How a sweep stands, also while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradwalk.sweep.schema import Status
from gradwalk.sweep.store import Result, Session, Store


@dataclass(frozen=True)
class SweepStatus:
    """The state of a sweep's folder.

    counts: runs of each status. epochs_done, epochs_total: over all runs. writer: the session of the process that is
    training now, or None. best: see `best_result`. errors: why runs failed, each reason once.
    """

    folder: Path
    counts: dict[Status, int]
    epochs_done: int
    epochs_total: int
    writer: Session | None
    best: Result | None
    errors: tuple[str, ...]

    @property
    def runs(self) -> int:
        """The number of runs."""
        return sum(self.counts.values())


def status(folder: str | Path) -> SweepStatus:
    """Return the state of the sweep in a folder."""
    with Store(folder) as store:
        results, writer, counts = store.results(), store.writer(), store.counts()
    return SweepStatus(
        folder=Path(folder),
        counts=counts,
        epochs_done=sum(len(result.epochs) for result in results),
        epochs_total=sum(result.run.epochs for result in results),
        writer=writer,
        best=best_result(results),
        errors=distinct_errors(results),
    )


def best_result(results: Sequence[Result]) -> Result | None:
    """Return the finished run with the smallest training error, ties broken by the training loss; None without one."""
    done = [result for result in results if result.status == "done" and result.epochs]
    return min(done, key=lambda result: (result.train_error, result.epochs[-1].train_loss), default=None)


def distinct_errors(results: Sequence[Result]) -> tuple[str, ...]:
    """Return why runs failed, each reason once."""
    return tuple(dict.fromkeys(result.error or "" for result in results if result.status == "failed"))

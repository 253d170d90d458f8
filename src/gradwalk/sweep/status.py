"""How a sweep stands, also while it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradwalk.sweep.schema import STATUSES, Status
from gradwalk.sweep.store import Result, Session, Store, Unreadable


@dataclass(frozen=True)
class SweepStatus:
    """The state of a sweep's folder.

    counts: runs of each status. epochs_done, epochs_total: over all runs. writer: the session of the process that is
    training now, or None. best: see `best_result`. errors: why runs failed, each reason once. unreadable: the runs that
    are damaged or were written by another version; they are not in the counts.
    """

    folder: Path
    counts: dict[Status, int]
    epochs_done: int
    epochs_total: int
    writer: Session | None
    best: Result | None
    errors: tuple[str, ...]
    unreadable: tuple[Unreadable, ...] = ()

    @property
    def runs(self) -> int:
        """The number of runs, those that cannot be read included."""
        return sum(self.counts.values()) + len(self.unreadable)


def status(folder: str | Path) -> SweepStatus:
    """Return the state of the sweep in a folder."""
    with Store(folder) as store:
        (results, unreadable), writer = store.contents(), store.writer()
    return SweepStatus(
        folder=Path(folder),
        counts=count_statuses(results),
        epochs_done=sum(result.epochs_done for result in results),
        epochs_total=sum(result.run.epochs for result in results),
        writer=writer,
        best=best_result(results),
        errors=distinct_errors(results),
        unreadable=tuple(unreadable),
    )


def count_statuses(results: Sequence[Result]) -> dict[Status, int]:
    """Return the number of runs of each status."""
    counts = Counter(result.status for result in results)
    return {status: counts[status] for status in STATUSES}


def best_result(results: Sequence[Result]) -> Result | None:
    """Return the finished run with the smallest training error, ties broken by the training loss; None without one."""
    done = [result for result in results if result.status == "done" and result.epochs]
    return min(done, key=_badness, default=None)


def _badness(result: Result) -> tuple[float, float]:
    last = result.epochs[-1]
    return result.train_error_after(last), last.train_loss


def distinct_errors(results: Sequence[Result]) -> tuple[str, ...]:
    """Return why runs failed, each reason once."""
    return tuple(dict.fromkeys(result.error or "" for result in results if result.status == "failed"))

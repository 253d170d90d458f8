"""How a sweep stands, also while it runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gradwalk.sweep.schema import STATUSES, Status
from gradwalk.sweep.store import Result, Session, Store, Unreadable
from gradwalk.train import Epoch


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
        tally = _Tally()
        for each in store.scan():
            tally.add(each)
        writer = store.writer()
    return SweepStatus(
        folder=Path(folder),
        counts={status: tally.counts[status] for status in STATUSES},
        epochs_done=tally.epochs_done,
        epochs_total=tally.epochs_total,
        writer=writer,
        best=tally.best,
        errors=tuple(tally.errors),
        unreadable=tuple(tally.unreadable),
    )


class _Tally:
    """Adds up the runs of a store one by one, so that a large one need not be in memory."""

    def __init__(self) -> None:
        self.counts: Counter[Status] = Counter()
        self.epochs_done = self.epochs_total = 0
        self.best: Result | None = None
        self._least = (math.inf, math.inf)
        self.errors: dict[str, None] = {}  # in order, each once
        self.unreadable: list[Unreadable] = []

    def add(self, each: Result | Unreadable) -> None:
        """Count a run."""
        if isinstance(each, Unreadable):
            self.unreadable.append(each)
            return
        self.counts[each.status] += 1
        self.epochs_total += each.run.epochs
        if each.status == "failed":
            self.errors[each.error or ""] = None
        last = each.last
        if last is not None:
            self._add_epochs(each, last)

    def _add_epochs(self, result: Result, last: Epoch) -> None:
        self.epochs_done += last.epoch
        if result.status == "done" and (self.best is None or _badness(result, last) < self._least):
            self.best, self._least = result, _badness(result, last)


def count_statuses(results: Sequence[Result]) -> dict[Status, int]:
    """Return the number of runs of each status."""
    counts = Counter(result.status for result in results)
    return {status: counts[status] for status in STATUSES}


def best_result(results: Sequence[Result]) -> Result | None:
    """Return the finished run with the smallest training error, ties broken by the training loss; None without one."""
    done = [(result, last) for result in results if result.status == "done" and (last := result.last) is not None]
    return min(done, key=lambda each: _badness(*each), default=(None, None))[0]


def _badness(result: Result, last: Epoch) -> tuple[float, float]:
    return result.train_error_after(last), last.train_loss


def distinct_errors(results: Sequence[Result]) -> tuple[str, ...]:
    """Return why runs failed, each reason once."""
    return tuple(dict.fromkeys(result.error or "" for result in results if result.status == "failed"))

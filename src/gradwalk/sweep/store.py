"""The results of a sweep: one SQLite file in its folder, which anyone may read while one process writes it."""

from __future__ import annotations

import json
import math
import sqlite3
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from pydantic_core import from_json

from gradwalk.sweep import lock
from gradwalk.sweep.epoch_table import EpochTable
from gradwalk.sweep.folder import STORE
from gradwalk.sweep.rows import EpochRow, Row, RunRow, SessionRow
from gradwalk.sweep.schema import STATUSES, Status, one_sentence, open_to_read
from gradwalk.train import Epoch, Run, checked_run

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Result:
    """A run of a sweep: its settings, its status, what was measured in each epoch, and where it was trained.

    diverged: the epoch in which it did, or None. error: why it failed. seconds: of training, summed over interruptions.
    starts: how often training began or resumed. began, ended: seconds since 1970.
    """

    run: Run
    identity: str
    status: Status
    epochs: Sequence[Epoch] = ()
    diverged: int | None = None
    error: str | None = None
    seconds: float | None = None
    parameters: int = 0
    train_examples: int = 0
    test_examples: int = 0
    starts: int = 0
    began: float | None = None
    ended: float | None = None
    host: str | None = None
    versions: dict[str, str] | None = None

    @property
    def last(self) -> Epoch | None:
        """The last epoch that was measured."""
        return self.epochs[-1] if self.epochs else None

    @property
    def epochs_done(self) -> int:
        """The number of epochs up to the last that was measured."""
        return self.epochs[-1].epoch if self.epochs else 0

    @property
    def train_error(self) -> float:
        """The last epoch's share of mistakes, or reconstruction error; NaN before the first epoch or if diverged."""
        last = self.last
        return math.nan if last is None or self.status == "diverged" else self.train_error_after(last)

    @property
    def test_error(self) -> float:
        """The same on the held-out split."""
        last = self.last
        return math.nan if last is None or self.status == "diverged" else self.test_error_after(last)

    def train_error_after(self, epoch: Epoch) -> float:
        """Return the training error measured at the end of an epoch."""
        return epoch.train_loss if self.run.task == "reconstruct" else _share(epoch.train_mistakes, self.train_examples)

    def test_error_after(self, epoch: Epoch) -> float:
        """Return the error on the held-out split measured at the end of an epoch."""
        return epoch.test_loss if self.run.task == "reconstruct" else _share(epoch.test_mistakes, self.test_examples)


@dataclass(frozen=True)
class Session:
    """A process that wrote the store: when (seconds since 1970), where, and with which engine, device, versions
    and spec.

    ended: None while the process runs, and if it was killed.
    """

    began: float
    ended: float | None
    engine: str
    device: str
    host: str
    pid: int
    machine: dict[str, str | int | None]
    versions: dict[str, str]
    spec: str

    @property
    def seconds(self) -> float:
        """The duration of the session; 0.0 if its end is not known."""
        return 0.0 if self.ended is None else self.ended - self.began


class Unreadable(NamedTuple):
    """A run of the store that cannot be read, and why: it is damaged, or written by another version of gradwalk.

    identity: as it is in the store, which may itself be damaged.
    """

    identity: str
    reason: str


class Contents(NamedTuple):
    """The runs of a store: those that can be read, and those that cannot."""

    results: list[Result]
    unreadable: list[Unreadable]


class UnreadableWarning(UserWarning):
    """Runs of a store cannot be read and are left out."""


RowT = TypeVar("RowT", bound=Row)
_ALL_SETTINGS = set(Run.model_fields)
_NAMES = ("data", "activation", "weights", "optimizer")  # settings whose values a registry has to know


class Store:
    """Reads a sweep's folder, also while another process writes to it.

    Every row is compared with its digest when it is read. A run that cannot be read does not hide the others.

    >>> Store("nowhere")
    Traceback (most recent call last):
    FileNotFoundError: sweep: there is no sweep in nowhere (no file sweep.sqlite)
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.path = self.folder / STORE
        self._connection = self._open()

    def _open(self) -> sqlite3.Connection:
        return open_to_read(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def results(self, identities: Collection[str] | None = None) -> list[Result]:
        """Return the runs of these identities (default: all), in the order in which they were added.

        Warns with `UnreadableWarning` if some cannot be read; `contents` returns them with the reasons.
        """
        results, unreadable = self.contents(identities)
        self._warn(unreadable)
        return results

    def stream(self) -> Iterator[Result]:
        """Yield all runs one by one, so that they need not be in memory together; warn as `results` does at the end."""
        unreadable = []
        for each in self.scan():
            if isinstance(each, Unreadable):
                unreadable.append(each)
            else:
                yield each
        self._warn(unreadable)

    def contents(self, identities: Collection[str] | None = None) -> Contents:
        """Return the runs of these identities (default: all), and those that cannot be read with the reasons."""
        contents = Contents([], [])
        for each in self.scan(None if identities is None else set(identities)):
            if isinstance(each, Unreadable):
                contents.unreadable.append(each)
            else:
                contents.results.append(each)
        return contents

    def scan(self, selected: Collection[str] | None = None) -> Iterator[Result | Unreadable]:
        """Yield the runs in order, as results or with the reason why they cannot be read."""
        epochs, versions = self._epochs(), {row.id: json.loads(row.versions) for row in self._valid(SessionRow)}
        alive, runs = self.writer() is not None, _Runs()
        for row, identity in self._rows(RunRow, "ORDER BY id"):
            if row is None:
                yield Unreadable(identity, "it is damaged: its digest does not match its values")
            elif selected is None or row.identity in selected:
                try:
                    row.status = _status(row.status, alive)
                    yield _result(row, runs.read(row.settings), epochs.get(row.id), versions.get(row.session or 0))
                except (ValueError, TypeError, RecursionError) as error:
                    yield Unreadable(identity, " ".join(str(error).split()))

    def runs_frame(self) -> DataFrame:
        """Return a pandas data frame with one row per run, see `gradwalk.sweep.frame.runs_frame`."""
        from gradwalk.sweep.frame import runs_frame

        return runs_frame(self.results())

    def epochs_frame(self) -> DataFrame:
        """Return a pandas data frame with one row per run and epoch, see `gradwalk.sweep.frame.epochs_frame`."""
        from gradwalk.sweep.frame import epochs_frame

        return epochs_frame(self.results())

    def counts(self) -> dict[Status, int]:
        """Return the number of runs of each status."""
        counts = Counter(self.statuses().values())
        return {status: counts[status] for status in STATUSES}

    def statuses(self) -> dict[str, Status]:
        """Return the status of each run that is not damaged, by its identity."""
        alive = self.writer() is not None
        return {row.identity: _status(row.status, alive) for row in self._valid(RunRow, "ORDER BY id")}

    def sessions(self) -> list[Session]:
        """Return the processes that wrote the store, in order."""
        return [_session(row) for row in self._valid(SessionRow, "ORDER BY id")]

    def writer(self) -> Session | None:
        """Return the session of the process that is writing the store now, or None."""
        last = next(iter(self.sessions()[-1:]), None)
        if last is None or last.ended is not None or not lock.is_alive(self.folder, last.host, last.pid):
            return None
        return last

    def _warn(self, unreadable: Sequence[Unreadable]) -> None:
        if unreadable:
            warnings.warn(unreadable_message(self.path, unreadable), UnreadableWarning, stacklevel=3)

    def _epochs(self) -> dict[int, EpochTable]:
        """Return the epochs of the runs under way, by the number of the run."""
        tables: dict[int, EpochTable] = {}
        for row in self._valid(EpochRow, "ORDER BY run, first"):
            table = EpochTable(row.epochs)
            tables[row.run] = tables[row.run].merged(table) if row.run in tables else table
        return tables

    def _valid(self, kind: type[RowT], more: str = "") -> Iterator[RowT]:
        return (row for row, _ in self._rows(kind, more) if row is not None)

    def _rows(self, kind: type[RowT], more: str = "") -> Iterator[tuple[RowT | None, str]]:
        """Yield the rows of a table, None for a damaged one, with the text of the second column."""
        with one_sentence(self.path):
            for values in self._connection.execute(kind.select(more)):
                yield kind.of(values), str(values[1])


def unreadable_message(path: Path, unreadable: Sequence[Unreadable]) -> str:
    """Return one sentence about the runs that cannot be read."""
    first, count = unreadable[0], len(unreadable)
    runs = "1 run" if count == 1 else f"{count} runs"
    return (
        f"sweep: {runs} in {path} cannot be read and are left out, the first because {first.reason}; damaged ones are "
        "trained again by the command of the sweep"
    )


def _status(status: Status, alive: bool) -> Status:
    """Return the status of a run; without a process that trains, one that was running is interrupted."""
    return "interrupted" if status == "running" and not alive else status


def _share(mistakes: int, examples: int) -> float:
    return mistakes / examples if examples else math.nan


def _result(row: RunRow, run: Run, begun: EpochTable | None, versions: dict[str, str] | None) -> Result:
    epochs = EpochTable(row.epochs) if row.ends else begun
    return Result(
        run=run,
        identity=row.identity,
        status=row.status,
        epochs=() if epochs is None else epochs,
        diverged=row.diverged,
        error=row.error,
        seconds=row.seconds,
        parameters=row.parameters,
        train_examples=row.train_examples,
        test_examples=row.test_examples,
        starts=row.starts,
        began=row.began,
        ended=row.ended,
        host=row.host,
        versions=versions,
    )


class _Runs:
    """Reads settings that a run was stored with, whose digest is right: what may be unknown here is validated once."""

    def __init__(self) -> None:
        self._known: set[tuple[Any, ...]] = set()

    def read(self, settings: str) -> Run:
        """Return the run; raise a ValueError for settings that this version cannot read."""
        try:
            values = from_json(settings)  # in half the time of `json.loads`, and with one copy of each name
        except ValueError as error:
            raise ValueError(f"its settings are no JSON: {error}") from None
        if not isinstance(values, dict):
            raise ValueError("its settings are not a table")
        named = (*values, *map(values.get, _NAMES))
        if named in self._known:
            return _copied(values)
        run = checked_run("its settings", **values)
        if values.keys() == Run.model_fields.keys():
            self._known.add(named)
        return run


def _copied(values: dict[str, Any]) -> Run:
    """Return the run of these settings, all those of a valid run; `model_construct` would take ten times as long."""
    run, assign = Run.__new__(Run), object.__setattr__
    assign(run, "__dict__", values)
    assign(run, "__pydantic_fields_set__", _ALL_SETTINGS)
    assign(run, "__pydantic_extra__", None)
    assign(run, "__pydantic_private__", None)
    return run


def _session(row: SessionRow) -> Session:
    values = {name: value for name, value in vars(row).items() if name != "id"}
    return Session(**values | {name: json.loads(values[name]) for name in ("machine", "versions")})

"""The results of a sweep: one SQLite file in its folder, which anyone may read while one process writes it."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from gradwalk.sweep import lock
from gradwalk.sweep.folder import STORE
from gradwalk.sweep.schema import STATUSES, Status, one_sentence, open_to_read
from gradwalk.train import Epoch, Run

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
    epochs: tuple[Epoch, ...] = ()
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
    def train_error(self) -> float:
        """The last epoch's share of mistakes, or reconstruction error; NaN before the first epoch or if diverged."""
        return math.nan if self.last is None or self.status == "diverged" else self.train_error_after(self.last)

    @property
    def test_error(self) -> float:
        """The same on the held-out split."""
        return math.nan if self.last is None or self.status == "diverged" else self.test_error_after(self.last)

    def train_error_after(self, epoch: Epoch) -> float:
        """Return the training error measured at the end of an epoch."""
        return epoch.train_loss if self.run.task == "reconstruct" else epoch.train_mistakes / self.train_examples

    def test_error_after(self, epoch: Epoch) -> float:
        """Return the error on the held-out split measured at the end of an epoch."""
        return epoch.test_loss if self.run.task == "reconstruct" else epoch.test_mistakes / self.test_examples


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


class Store:
    """Reads a sweep's folder, also while another process writes to it.

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
        """Return the runs of these identities (default: all), in the order in which they were added."""
        selected = None if identities is None else set(identities)
        epochs = self._epochs()
        return [
            _result(row, epochs.get(row["id"], []))
            for row in self._rows(_RUNS)
            if selected is None or row["identity"] in selected
        ]

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
        counts = {row["status"]: row["number"] for row in self._rows(_COUNT)}
        return {status: counts.get(status, 0) for status in STATUSES}

    def statuses(self) -> dict[str, Status]:
        """Return the status of each run, by its identity."""
        return {row["identity"]: row["status"] for row in self._rows("SELECT identity, status FROM runs ORDER BY id")}

    def sessions(self) -> list[Session]:
        """Return the processes that wrote the store, in order."""
        return [_session(row) for row in self._rows("SELECT * FROM sessions ORDER BY id")]

    def writer(self) -> Session | None:
        """Return the session of the process that is writing the store now, or None."""
        last = next(iter(self.sessions()[-1:]), None)
        if last is None or last.ended is not None or not lock.is_alive(self.folder, last.host, last.pid):
            return None
        return last

    def _epochs(self) -> dict[int, list[Epoch]]:
        epochs: dict[int, list[Epoch]] = {}
        for row in self._rows("SELECT * FROM epochs ORDER BY run, epoch"):
            values = {key: row[key] for key in row.keys() if key != "run"}  # noqa: SIM118
            losses = {key: math.nan if values[key] is None else values[key] for key in ("train_loss", "test_loss")}
            epochs.setdefault(row["run"], []).append(Epoch(**values | losses))
        return epochs

    def _rows(self, query: str) -> Iterator[sqlite3.Row]:
        with one_sentence(self.path):
            cursor = self._connection.execute(query)
            cursor.row_factory = sqlite3.Row
            yield from cursor


_RUNS = "SELECT runs.*, versions FROM runs LEFT JOIN sessions ON sessions.id = session ORDER BY runs.id"
_COUNT = "SELECT status, count(*) AS number FROM runs GROUP BY status"


def _result(row: sqlite3.Row, epochs: list[Epoch]) -> Result:
    columns = [field.name for field in fields(Result) if field.name not in ("run", "epochs", "versions")]
    versions = None if row["versions"] is None else json.loads(row["versions"])
    values: dict[str, Any] = {name: row[name] for name in columns}
    return Result(run=Run(**json.loads(row["settings"])), epochs=tuple(epochs), versions=versions, **values)


def _session(row: sqlite3.Row) -> Session:
    values: dict[str, Any] = {field.name: row[field.name] for field in fields(Session)}
    return Session(**values | {name: json.loads(values[name]) for name in ("machine", "versions")})

"""The results of a sweep: one SQLite file in its folder, which anyone may read while one process writes it."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from gradwalk.sweep.lock import holder
from gradwalk.sweep.schema import FILE, open_to_read, sentences
from gradwalk.train import Epoch, Run

Status = Literal["waiting", "running", "done", "diverged", "failed"]
STATUSES: tuple[Status, ...] = ("waiting", "running", "done", "diverged", "failed")
LOCK = "lock"
CHECKPOINTS = "checkpoints"


@dataclass(frozen=True)
class Result:
    """How a run stands: its settings, its status, what was measured in each epoch, and where it was trained.

    diverged: the epoch in which it did, None where it did not. error: why it failed. seconds: of training, summed over
    interruptions. starts: how often it was begun or gone on with. began, ended: seconds since 1970.
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
        return self._error("train", self.train_examples)

    @property
    def test_error(self) -> float:
        """The same on the held-out split."""
        return self._error("test", self.test_examples)

    def _error(self, split: str, examples: int) -> float:
        if self.last is None or self.status == "diverged":
            return math.nan
        if self.run.task == "reconstruct":
            return float(getattr(self.last, f"{split}_loss"))
        return float(getattr(self.last, f"{split}_mistakes") / examples)


class Store:
    """Reads a sweep's folder, also while another process writes to it.

    >>> Store("nowhere")
    Traceback (most recent call last):
    FileNotFoundError: sweep: there is no sweep in nowhere (no file sweep.sqlite)
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
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
        """Return the runs with all that is known of them, in the order in which they came; those asked for, or all."""
        wanted = None if identities is None else set(identities)
        measured = self._epochs()
        return [
            _result(row, measured.get(row["id"], []))
            for row in self._rows(_RUNS)
            if wanted is None or row["identity"] in wanted
        ]

    def counts(self) -> dict[Status, int]:
        """Return how many runs have each status."""
        found = {row["status"]: row["number"] for row in self._rows(_COUNT)}
        return {status: found.get(status, 0) for status in STATUSES}

    def statuses(self) -> dict[str, Status]:
        """Return the status of each run, by its identity."""
        return {row["identity"]: row["status"] for row in self._rows("SELECT identity, status FROM runs ORDER BY id")}

    def sessions(self) -> list[dict[str, Any]]:
        """Return the processes that wrote the file: when, where, with what engine, versions and spec."""
        return [dict(row) for row in self._rows("SELECT * FROM sessions ORDER BY id")]

    def holder(self) -> dict[str, Any] | None:
        """Return who writes to the file now (pid, host, since), or None."""
        return holder(self.folder / LOCK)

    def _epochs(self) -> dict[int, list[Epoch]]:
        found: dict[int, list[Epoch]] = {}
        for row in self._rows("SELECT * FROM epochs ORDER BY run, epoch"):
            facts = {key: row[key] for key in row.keys() if key != "run"}  # noqa: SIM118
            losses = {key: math.nan if facts[key] is None else facts[key] for key in ("train_loss", "test_loss")}
            found.setdefault(row["run"], []).append(Epoch(**facts | losses))
        return found

    def _rows(self, query: str) -> Iterator[sqlite3.Row]:
        with sentences(self.path):
            cursor = self._connection.execute(query)
            cursor.row_factory = sqlite3.Row
            yield from cursor


_RUNS = "SELECT runs.*, versions FROM runs LEFT JOIN sessions ON sessions.id = session ORDER BY runs.id"
_COUNT = "SELECT status, count(*) AS number FROM runs GROUP BY status"


def _result(row: sqlite3.Row, epochs: list[Epoch]) -> Result:
    same = ("identity", "status", "diverged", "error", "seconds", "parameters", "train_examples", "test_examples")
    facts = {key: row[key] for key in (*same, "starts", "began", "ended", "host")}
    versions = None if row["versions"] is None else json.loads(row["versions"])
    return Result(Run(**json.loads(row["settings"])), epochs=tuple(epochs), versions=versions, **facts)

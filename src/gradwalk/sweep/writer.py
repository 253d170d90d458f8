"""The one writer of a sweep's store. What it is told is kept for a moment and written in one transaction."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from gradwalk.sweep.lock import Lock
from gradwalk.sweep.schema import open_to_write, sentences, transaction
from gradwalk.sweep.store import LOCK, Store
from gradwalk.train import Epoch, Run
from gradwalk.versions import machine, versions

_EVERY = 1.0  # seconds between writes of epochs; how a run ends is written at once


@dataclass(frozen=True)
class Entry:
    """A run as it enters the store, with its identity and what is known before it is trained."""

    identity: str
    run: Run
    parameters: int
    train_examples: int
    test_examples: int


@dataclass(frozen=True)
class Ending:
    """How a run ended: all its epochs, the epoch in which it diverged or None, seconds of training, and where."""

    identity: str
    epochs: tuple[Epoch, ...]
    diverged: int | None
    seconds: float
    host: str


class Writer(Store):
    """Writes the store of a folder, which is made where there is none; one at a time."""

    def __init__(self, folder: str | Path, *, engine: str = "local", spec: str = "") -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._lock = Lock(Path(folder) / LOCK)
        self._lock.acquire()
        try:
            super().__init__(folder)
            self._waiting: list[tuple[str, Any]] = []
            self._measured: set[tuple[str, int]] = set()  # epochs that this process has written
            self._written = time.monotonic()
            self._session = self._begin(engine, spec)
        except BaseException:
            self._lock.release()
            raise

    def _open(self) -> sqlite3.Connection:
        return open_to_write(self.path)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError) if kind is not None else nullcontext():  # what went wrong first is what is told
            self.close()

    def close(self) -> None:
        """Write what is left, and let others write."""
        try:
            self._later("UPDATE sessions SET ended = ? WHERE id = ?", (time.time(), self._session))
            self.flush()
        finally:
            super().close()
            self._lock.release()

    def enlist(self, entries: Iterable[Entry]) -> None:
        """Let runs wait that are not there yet; those that are there stay as they are."""
        facts = "identity, settings, parameters, train_examples, test_examples"
        for each in entries:
            row = (each.identity, each.run.model_dump_json(), each.parameters, each.train_examples, each.test_examples)
            self._later(f"INSERT OR IGNORE INTO runs ({facts}) VALUES (?, ?, ?, ?, ?)", row)
        self.flush()

    def began(self, identities: Sequence[str]) -> None:
        """Runs are being trained, or gone on with."""
        for identity in identities:
            self._later(_BEGAN, (time.time(), self._session, identity))
        self.flush()

    def measured(self, identity: str, epoch: Epoch) -> None:
        """A run finished an epoch."""
        self._epoch(identity, epoch)
        if time.monotonic() - self._written > _EVERY:
            self.flush()

    def ended(self, endings: Iterable[Ending]) -> None:
        """Runs are done, or diverged; they will not be trained again. All their epochs are written with them."""
        for each in endings:
            for epoch in each.epochs:  # some may be known from a checkpoint alone
                if (each.identity, epoch.epoch) not in self._measured:
                    self._epoch(each.identity, epoch)
            self._measured -= {(each.identity, epoch.epoch) for epoch in each.epochs}
            status = "done" if each.diverged is None else "diverged"
            row = (status, each.diverged, time.time(), each.seconds, each.host, self._session, each.identity)
            self._later(_ENDED, row)
        self.flush()

    def failed(self, identities: Sequence[str], error: str) -> None:
        """Runs could not be trained; the same command tries them again."""
        for identity in identities:
            self._later(_FAILED, (error, time.time(), self._session, identity))
        self.flush()

    def flush(self) -> None:
        """Write all that waits, in one transaction."""
        with sentences(self.path), transaction(self._connection):
            for statement, row in self._waiting:
                self._connection.execute(statement, row)
        self._waiting.clear()
        self._written = time.monotonic()

    def _begin(self, engine: str, spec: str) -> int:
        """Note who writes now. What another process left as running waits again."""
        facts = (time.time(), engine, socket.gethostname(), os.getpid(), json.dumps(machine()))
        row = (*facts, json.dumps(versions()), spec)
        with sentences(self.path), transaction(self._connection):
            self._connection.execute("UPDATE runs SET status = 'waiting' WHERE status = 'running'")
            added = self._connection.execute(_SESSION, row)
        assert added.lastrowid is not None
        return added.lastrowid

    def _epoch(self, identity: str, epoch: Epoch) -> None:
        self._measured.add((identity, epoch.epoch))
        self._later(_EPOCH, (*epoch.row, identity))

    def _later(self, statement: str, row: tuple[Any, ...]) -> None:
        self._waiting.append((statement, row))


_SESSION = "INSERT INTO sessions (began, engine, host, pid, machine, versions, spec) VALUES (?, ?, ?, ?, ?, ?, ?)"
_BEGAN = (
    "UPDATE runs SET status = 'running', error = NULL, starts = starts + 1, began = coalesce(began, ?), session = ? "
    "WHERE identity = ?"
)
_ENDED = (
    "UPDATE runs SET status = ?, diverged = ?, error = NULL, ended = ?, seconds = ?, host = ?, session = ?, "
    "ends = ends + 1 WHERE identity = ?"
)
_FAILED = "UPDATE runs SET status = 'failed', error = ?, ended = ?, session = ? WHERE identity = ?"
_EPOCH = (
    "INSERT OR REPLACE INTO epochs "
    "(epoch, train_loss, train_mistakes, test_loss, test_mistakes, clipped, seconds, run) "
    "SELECT ?, ?, ?, ?, ?, ?, ?, id FROM runs WHERE identity = ?"
)

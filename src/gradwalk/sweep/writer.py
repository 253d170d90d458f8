"""The one writer of a sweep's store: collects events for a moment and writes them in one transaction."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from filelock import FileLock, Timeout

from gradwalk.sweep import lock
from gradwalk.sweep.entry import Ending, Entry
from gradwalk.sweep.schema import one_sentence, open_to_write, transaction
from gradwalk.sweep.store import Store
from gradwalk.train import Epoch
from gradwalk.versions import machine, versions

_EVERY = 1.0  # seconds between writes of epochs; endings are written at once


class Writer(Store):
    """Writes the store of a folder, which is created if missing; one process at a time."""

    def __init__(self, folder: str | Path, *, engine: str = "local", device: str = "cpu", spec: str = "") -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._lock = _acquired(Path(folder))
        try:
            super().__init__(folder)
            self._pending: list[tuple[str, Any]] = []
            self._recorded: set[tuple[str, int]] = set()  # epochs written by this process
            self._written = time.monotonic()
            self._session = self._begin(engine, device, spec)
        except BaseException:
            self._lock.release()
            raise

    def _open(self) -> sqlite3.Connection:
        return open_to_write(self.path)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError) if kind is not None else nullcontext():  # the first error is the one to report
            self.close()

    def close(self) -> None:
        """Write what is left, and release the lock."""
        try:
            self._later("UPDATE sessions SET ended = ? WHERE id = ?", (time.time(), self._session))
            self.flush()
        finally:
            super().close()
            self._lock.release()

    def enlist(self, entries: Iterable[Entry]) -> None:
        """Add runs that are not in the store yet, as waiting; the others stay as they are."""
        columns = "identity, settings, parameters, train_examples, test_examples"
        for entry in entries:
            sizes = (entry.parameters, entry.train_examples, entry.test_examples)
            row = (entry.identity, entry.run.model_dump_json(), *sizes)
            self._later(f"INSERT OR IGNORE INTO runs ({columns}) VALUES (?, ?, ?, ?, ?)", row)
        self.flush()

    def began(self, identities: Sequence[str]) -> None:
        """Record that training of runs began or resumed."""
        for identity in identities:
            self._later(_BEGAN, (time.time(), self._session, identity))
        self.flush()

    def epoch_ended(self, identity: str, epoch: Epoch) -> None:
        """Record a finished epoch, within a second."""
        self._epoch(identity, epoch)
        if time.monotonic() - self._written > _EVERY:
            self.flush()

    def ended(self, endings: Iterable[Ending]) -> None:
        """Record runs that are done or diverged, with all their epochs."""
        for ending in endings:
            for epoch in ending.epochs:  # some may be known only from a checkpoint
                if (ending.identity, epoch.epoch) not in self._recorded:
                    self._epoch(ending.identity, epoch)
            self._recorded -= {(ending.identity, epoch.epoch) for epoch in ending.epochs}
            status = "done" if ending.diverged is None else "diverged"
            row = (status, ending.diverged, time.time(), ending.seconds, ending.host, self._session, ending.identity)
            self._later(_ENDED, row)
        self.flush()

    def failed(self, identities: Sequence[str], error: str) -> None:
        """Record runs that could not be trained, and why."""
        for identity in identities:
            self._later(_FAILED, (error, time.time(), self._session, identity))
        self.flush()

    def flush(self) -> None:
        """Write everything that was collected, in one transaction."""
        with one_sentence(self.path), transaction(self._connection):
            for statement, row in self._pending:
                self._connection.execute(statement, row)
        self._pending.clear()
        self._written = time.monotonic()

    def _begin(self, engine: str, device: str, spec: str) -> int:
        """Record the session; runs that a killed process left as running are waiting again."""
        where = (time.time(), engine, device, socket.gethostname(), os.getpid(), json.dumps(machine()))
        row = (*where, json.dumps(versions()), spec)
        with one_sentence(self.path), transaction(self._connection):
            self._connection.execute("UPDATE runs SET status = 'waiting' WHERE status = 'running'")
            added = self._connection.execute(_SESSION, row)
        assert added.lastrowid is not None
        return added.lastrowid

    def _epoch(self, identity: str, epoch: Epoch) -> None:
        self._recorded.add((identity, epoch.epoch))
        self._later(_EPOCH, (*epoch.row, identity))

    def _later(self, statement: str, row: tuple[Any, ...]) -> None:
        self._pending.append((statement, row))


def _acquired(folder: Path) -> FileLock:
    """Return the held lock of a folder, or raise an error that names the process that holds it."""
    try:
        return lock.acquire(folder)
    except Timeout:
        raise ValueError(f"sweep: {folder} is in use by {_holder(folder)}; wait for it, or stop it") from None


def _holder(folder: Path) -> str:
    with suppress(FileNotFoundError), Store(folder) as store:
        session = store.writer()
        if session is not None:
            return lock.in_words(session.host, session.pid, session.began)
    return "another process"


_SESSION = (
    "INSERT INTO sessions (began, engine, device, host, pid, machine, versions, spec) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
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

"""The one writer of a sweep's store: collects events for a moment and writes them in one transaction."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import time
import warnings
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from gradwalk.sweep import lock
from gradwalk.sweep.entry import Ending, Entry
from gradwalk.sweep.epoch_table import EpochTable
from gradwalk.sweep.folder import LOCK, Identities
from gradwalk.sweep.repair import remove_damaged
from gradwalk.sweep.rows import EpochRow, RunRow, SessionRow
from gradwalk.sweep.schema import Status, one_sentence, open_to_write, transaction
from gradwalk.sweep.store import Session, Store
from gradwalk.train import DamageWarning, Epoch
from gradwalk.versions import machine, versions

_EVERY = 5.0  # seconds for which epochs are collected before they are written; endings are written at once


class Writer(Store):
    """Writes the store of a folder, which is created if missing; one process at a time.

    Damaged rows are removed when it is opened, with a `DamageWarning`; their runs are not in the store any more.
    """

    def __init__(self, folder: str | Path, *, engine: str = "local", device: str = "cpu", spec: str = "") -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._lock = _acquired(Path(folder))
        try:
            super().__init__(folder)
            self._places = Identities(self.folder, self.path, self.folder / LOCK)
            self._changed: dict[str, RunRow] = {}  # rows to be written, by identity
            self._epochs_to_write: dict[str, list[Epoch]] = {}
            self._written = time.monotonic()
            with one_sentence(self.path):
                self._repair()
                self._begin(engine, device, spec)
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
        """Write what is left, with the runs under way as interrupted, and release the lock."""
        try:
            for row in self._open_runs.values():
                if row.status == "running":
                    self._change(row, status="interrupted")
            self._session.ended = time.time()
            self.flush()
        finally:
            super().close()
            self._lock.release()

    def writer(self) -> Session | None:
        """Return the session of this process."""
        return self.sessions()[-1]

    def statuses(self) -> dict[str, Status]:
        """Return the status of each run, by its identity, without reading the file again."""
        return dict(self._statuses)

    def enlist(self, entries: Iterable[Entry]) -> None:
        """Add runs that are not in the store yet, as waiting; the others stay as they are."""
        for entry in entries:
            if entry.identity not in self._statuses:
                self._last += 1
                sizes = (entry.parameters, entry.train_examples, entry.test_examples)
                row = RunRow(self._last, entry.identity, entry.run.model_dump_json(), *sizes)
                self._statuses[entry.identity] = row.status
                self._open_runs[entry.identity] = self._changed[entry.identity] = row
        self.flush()

    def began(self, identities: Sequence[str]) -> None:
        """Record that training of runs began or resumed."""
        for identity in identities:
            row = self._open_runs[identity]
            self._change(row, status="running", error=None, starts=row.starts + 1, began=row.began or time.time())
        self.flush()

    def epoch_ended(self, identity: str, epoch: Epoch) -> None:
        """Record a finished epoch; it is written with the next ending, or a few seconds later with other epochs."""
        self._epochs_to_write.setdefault(identity, []).append(epoch)
        if time.monotonic() - self._written > _EVERY:
            self.flush()

    def ended(self, endings: Iterable[Ending]) -> None:
        """Record runs that are done or diverged, with all their epochs."""
        for ending in endings:
            row = self._open_runs[ending.identity]
            self._epochs_to_write.pop(ending.identity, None)  # the ending has them all
            self._change(
                row,
                status="done" if ending.diverged is None else "diverged",
                diverged=ending.diverged,
                error=None,
                ends=row.ends + 1,
                host=ending.host,
                ended=time.time(),
                seconds=ending.seconds,
                epochs=EpochTable.of(ending.epochs).content,
            )
        self.flush()

    def failed(self, identities: Sequence[str], error: str) -> None:
        """Record runs that could not be trained, and why."""
        for identity in identities:
            self._change(self._open_runs[identity], status="failed", error=error, ended=time.time())
        self.flush()

    def flush(self) -> None:
        """Write everything that was collected, in one transaction."""
        self.check_folder()
        ended = [row for row in self._changed.values() if row.ends]
        epochs = [self._epoch_row(identity, epochs) for identity, epochs in self._epochs_to_write.items()]
        with one_sentence(self.path), transaction(self._connection):
            SessionRow.write(self._connection, [self._session])
            RunRow.write(self._connection, self._changed.values())
            self._connection.executemany("DELETE FROM epochs WHERE run = ?", [(row.id,) for row in ended])
            EpochRow.write(self._connection, epochs)
        for row in ended:
            del self._open_runs[row.identity]
        self._changed.clear()
        self._epochs_to_write.clear()
        self._written = time.monotonic()

    def _epoch_row(self, identity: str, epochs: Sequence[Epoch]) -> EpochRow:
        return EpochRow(self._open_runs[identity].id, epochs[0].epoch, EpochTable.of(epochs).content)

    def check_folder(self) -> None:
        """Raise if the folder, the store or the lock was removed or replaced since this process opened them."""
        self._places.check()

    def _change(self, row: RunRow, **values: str | int | float | bytes | None) -> None:
        for name, value in values.items():
            setattr(row, name, value)
        row.session = self._session.id
        self._changed[row.identity], self._statuses[row.identity] = row, row.status

    def _repair(self) -> None:
        message = remove_damaged(self._connection, self.path)
        if message is not None:
            warnings.warn(message, DamageWarning, stacklevel=2)

    def _begin(self, engine: str, device: str, spec: str) -> None:
        """Read the runs, and record the session; runs that a killed process left as running were interrupted."""
        rows = [row for row, _ in self._rows(RunRow, "ORDER BY id") if row is not None]
        self._last = max((row.id for row in rows), default=0)
        self._open_runs = {row.identity: row for row in rows if not row.ends}
        where = (engine, device, socket.gethostname(), os.getpid(), json.dumps(machine()))
        number = max((row.id for row in self._valid(SessionRow)), default=0) + 1
        self._session = SessionRow(number, time.time(), None, *where, json.dumps(versions()), spec)
        for row in self._open_runs.values():
            if row.status == "running":
                row.status = "interrupted"
                self._changed[row.identity] = row
        self._statuses = {row.identity: row.status for row in rows}
        self.flush()


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

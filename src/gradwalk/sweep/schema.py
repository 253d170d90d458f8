"""The store's file: its tables, how it is opened, and the errors raised when it cannot be used."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, get_args

Status = Literal["waiting", "running", "done", "diverged", "failed"]
STATUSES: tuple[Status, ...] = get_args(Status)

VERSION = 1
_APPLICATION = 0x67776B31  # distinguishes our files from other SQLite files
_TABLES = f"""
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY, began REAL, ended REAL, engine TEXT, device TEXT, host TEXT,
    pid INTEGER, machine TEXT, versions TEXT, spec TEXT
);
CREATE TABLE runs (
    id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE, settings TEXT NOT NULL,
    parameters INTEGER NOT NULL, train_examples INTEGER NOT NULL, test_examples INTEGER NOT NULL,
    status TEXT NOT NULL DEFAULT 'waiting' CHECK (status IN {STATUSES}),
    diverged INTEGER, error TEXT,
    starts INTEGER NOT NULL DEFAULT 0, ends INTEGER NOT NULL DEFAULT 0,
    session INTEGER REFERENCES sessions (id), host TEXT, began REAL, ended REAL, seconds REAL
);
CREATE INDEX runs_by_status ON runs (status);
CREATE TABLE epochs (
    run INTEGER NOT NULL REFERENCES runs (id), epoch INTEGER NOT NULL,
    train_loss REAL, train_mistakes INTEGER NOT NULL, test_loss REAL, test_mistakes INTEGER NOT NULL,
    clipped INTEGER NOT NULL, seconds REAL NOT NULL,
    PRIMARY KEY (run, epoch)
) WITHOUT ROWID;
"""


def open_to_read(path: Path) -> sqlite3.Connection:
    """Return a connection that cannot write."""
    if not path.exists():
        raise FileNotFoundError(f"sweep: there is no sweep in {path.parent} (no file {path.name})")
    with one_sentence(path):
        connection = _reader(path)
        try:
            if _is_empty(connection):  # its process has just begun, or was killed then
                raise FileNotFoundError(f"sweep: there is no sweep in {path.parent} yet ({path.name} is empty)")
            _check_version(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


def open_to_write(path: Path) -> sqlite3.Connection:
    """Return a connection to the file, which is created if it is missing, and checked for corruption.

    A write-ahead log lets others read while one writes. synchronous = NORMAL: what is committed survives the end of
    the process, however it ends; a power failure may lose the last seconds, never the file.
    """
    with one_sentence(path):
        connection = sqlite3.connect(path, timeout=30, isolation_level=None)
        try:
            _check_version(connection, path)
            (outcome,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if outcome != "ok":
                raise sqlite3.DatabaseError(outcome)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA journal_mode = WAL")
            if _is_empty(connection):
                _create(connection)
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit everything that is written inside, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # SQLite rolls back by itself when the disk is full
            connection.execute("ROLLBACK")
        raise


@contextmanager
def one_sentence(path: Path) -> Iterator[None]:
    """Raise SQLite's errors as one sentence that says what to do about them."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            raise OSError(f"sweep: {path} cannot be used ({error})") from None
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            reason = " ".join(str(error).split())
            raise ValueError(
                f"sweep: {path} is corrupt ({reason}) and was not changed; restore a copy of it, or move it away to "
                "start over from the checkpoints"
            ) from None
        raise


def _reader(path: Path) -> sqlite3.Connection:
    """Return a connection for reading; in a read-only folder, one that needs no files for the write-ahead log."""
    uri = path.absolute().as_uri() + "?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=30, isolation_level=None)
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
        return sqlite3.connect(uri + "&immutable=1", uri=True, isolation_level=None)
    return connection


def _is_empty(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    if _is_empty(connection):
        return
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION:
        raise ValueError(f"sweep: {path} was not written by gradwalk; choose another folder")
    if version != VERSION:
        raise ValueError(
            f"sweep: {path} has format {version}, but this gradwalk reads format {VERSION}; use the gradwalk that "
            "wrote it, or another folder"
        )


def _create(connection: sqlite3.Connection) -> None:
    with transaction(connection):
        for statement in filter(str.strip, _TABLES.split(";")):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")

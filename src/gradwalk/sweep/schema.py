"""The store's file: its tables, how it is opened, and the errors raised when it cannot be used."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Literal, get_args

from gradwalk.files import atomic

Status = Literal["waiting", "running", "interrupted", "done", "diverged", "failed"]
STATUSES: tuple[Status, ...] = get_args(Status)
_WAY_OUT = "restore a copy of it, or move it away to start over from the checkpoints"

VERSION = 2
_APPLICATION = 0x67776B31  # distinguishes our files from other SQLite files
_TABLES = (
    """CREATE TABLE sessions (
    id INTEGER PRIMARY KEY, began REAL, ended REAL, engine TEXT, device TEXT, host TEXT,
    pid INTEGER, machine TEXT, versions TEXT, spec TEXT, digest TEXT NOT NULL
)""",
    f"""CREATE TABLE runs (
    id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE, settings TEXT NOT NULL,
    parameters INTEGER NOT NULL, train_examples INTEGER NOT NULL, test_examples INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN {STATUSES}),
    diverged INTEGER, error TEXT, starts INTEGER NOT NULL, ends INTEGER NOT NULL,
    session INTEGER REFERENCES sessions (id), host TEXT, began REAL, ended REAL, seconds REAL,
    epochs BLOB NOT NULL, digest TEXT NOT NULL
)""",
    """CREATE TABLE epochs (
    run INTEGER NOT NULL REFERENCES runs (id), first INTEGER NOT NULL,
    epochs BLOB NOT NULL, digest TEXT NOT NULL,
    PRIMARY KEY (run, first)
) WITHOUT ROWID""",
)


def open_to_read(path: Path) -> sqlite3.Connection:
    """Return a connection that cannot write, to a file that was checked for corruption."""
    if not path.exists():
        raise FileNotFoundError(f"sweep: there is no sweep in {path.parent} (no file {path.name})")
    with one_sentence(path):
        connection = _reader(path)
        try:
            _check(connection, path, "quick_check")
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
        if not path.exists():
            _create(path)
        connection = _connected(str(path))
        try:
            _check(connection, path, "integrity_check")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA journal_mode = WAL")
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
    except UnicodeDecodeError:  # of SQLite's own message, which quotes a damaged name
        raise ValueError(
            f"sweep: {path} is corrupt (a name in it is no text) and was not changed; {_WAY_OUT}"
        ) from None
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            raise OSError(f"sweep: {path} cannot be used ({error})") from None
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise OSError(f"sweep: {path} is in use by another program ({error}); close it") from None
        reason = " ".join(str(error).split())
        raise ValueError(f"sweep: {path} is corrupt ({reason}) and was not changed; {_WAY_OUT}") from None


def _reader(path: Path) -> sqlite3.Connection:
    """Return a connection for reading; in a read-only folder, one that needs no files for the write-ahead log."""
    uri = path.absolute().as_uri() + "?mode=ro"
    connection = _connected(uri)
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
        return _connected(uri + "&immutable=1")
    return connection


def _connected(name: str) -> sqlite3.Connection:
    """Return a connection to a path or URI that reads any text, also damaged, which its digest then shows."""
    connection = sqlite3.connect(name, uri=name.startswith("file:"), timeout=30, isolation_level=None)
    connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
    return connection


def _check(connection: sqlite3.Connection, path: Path, thorough: Literal["quick_check", "integrity_check"]) -> None:
    """Raise unless the file is whole, was written by gradwalk, and has the tables of this version.

    A new file is complete before it gets its name: an empty one has lost its content.
    """
    if not path.stat().st_size:
        raise ValueError(f"sweep: {path} is empty and has lost its results; {_WAY_OUT}")
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION:
        raise ValueError(f"sweep: {path} was not written by gradwalk; choose another folder")
    if version != VERSION:
        raise ValueError(
            f"sweep: {path} has format {version}, but this gradwalk reads format {VERSION}; use the gradwalk that "
            "wrote it, or another folder"
        )
    (outcome,) = connection.execute(f"PRAGMA {thorough}(1)").fetchone()
    tables = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    if outcome != "ok" or tables != set(_TABLES):
        raise sqlite3.DatabaseError(outcome if outcome != "ok" else "its tables are not as they were written")


def _create(path: Path) -> None:
    """Create the file with its tables; it gets its name once it is complete.

    The log of a file that was moved away would be replayed into the new one, and is moved aside.
    """
    log = path.with_name(f"{path.name}-wal")
    if log.exists():
        log.replace(path.with_name(f"{log.name}.old"))
    with (
        atomic(path) as unfinished,
        closing(sqlite3.connect(unfinished, isolation_level=None)) as connection,
        transaction(connection),
    ):
        for statement in _TABLES:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")

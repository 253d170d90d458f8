"""The store's file: its tables, their version, how it is opened, and what is said when it cannot be used."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FILE = "sweep.sqlite"
_APPLICATION = 0x67776B31  # tells our files from other SQLite files

# One script a version: a file of version n is brought up to date by the scripts after the n-th.
STEPS = (
    """
    CREATE TABLE sessions (
        id INTEGER PRIMARY KEY, began REAL, ended REAL, engine TEXT, host TEXT, pid INTEGER,
        machine TEXT, versions TEXT, spec TEXT
    );
    CREATE TABLE runs (
        id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE, settings TEXT NOT NULL,
        parameters INTEGER NOT NULL, train_examples INTEGER NOT NULL, test_examples INTEGER NOT NULL,
        status TEXT NOT NULL DEFAULT 'waiting'
            CHECK (status IN ('waiting', 'running', 'done', 'diverged', 'failed')),
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
    """,
)


def open_to_read(path: Path) -> sqlite3.Connection:
    """Return a connection that cannot write; a file of an older version is brought up to date in memory."""
    if not path.exists():
        raise FileNotFoundError(f"sweep: there is no sweep in {path.parent} (no file {path.name})")
    with sentences(path):
        connection = _reader(path)
        if _version(connection, path) == len(STEPS):
            return connection
        memory = sqlite3.connect(":memory:", isolation_level=None)
        connection.backup(memory)
        connection.close()
        _bring_up_to_date(memory, path)
        return memory


def open_to_write(path: Path) -> sqlite3.Connection:
    """Return a connection to the file, made or brought up to date where it must be, and checked for damage.

    A write-ahead log lets others read while one writes. synchronous = NORMAL: what is committed survives the end of
    the process, however it ends; a loss of power may take the last seconds, never the file.
    """
    with sentences(path):
        connection = sqlite3.connect(path, timeout=30, isolation_level=None)
        try:
            _version(connection, path)
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise sqlite3.DatabaseError(found)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA journal_mode = WAL")
            _bring_up_to_date(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of what is written inside, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # SQLite has undone it by itself when the disk is full
            connection.execute("ROLLBACK")
        raise


@contextmanager
def sentences(path: Path) -> Iterator[None]:
    """Say in one sentence what SQLite could not do, and what to do about it."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            raise OSError(f"sweep: {path} cannot be used ({error})") from None
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            said = " ".join(str(error).split())
            raise ValueError(
                f"sweep: {path} is damaged ({said}) and was left as it is; put a copy of it there, or move it away to "
                "begin anew: checkpoints are gone on from"
            ) from None
        raise


def _reader(path: Path) -> sqlite3.Connection:
    """Return a connection for reading; in a folder that cannot be written to, without the log's help files."""
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


def _version(connection: sqlite3.Connection, path: Path) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != _APPLICATION and connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise ValueError(f"sweep: {path} is no store of gradwalk's; choose another folder")
    if version > len(STEPS):
        raise ValueError(
            f"sweep: {path} has version {version}, and this gradwalk knows {len(STEPS)} and older; use a newer gradwalk"
        )
    return int(version)


def _bring_up_to_date(connection: sqlite3.Connection, path: Path) -> None:
    done = _version(connection, path)
    if done == len(STEPS):
        return
    with transaction(connection):
        for script in STEPS[done:]:
            for statement in filter(str.strip, script.split(";")):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {len(STEPS)}")

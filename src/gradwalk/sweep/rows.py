"""The rows of the store as records, each with a digest of its values, by which a changed bit is noticed."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar, Self

from gradwalk.sweep.schema import Status

Value = str | int | float | bytes | None


class Row:
    """A row of a table: its fields are the columns, and `digest` is the last column of the table."""

    table: ClassVar[str]

    @classmethod
    @cache
    def columns(cls) -> tuple[str, ...]:
        """Return the names of the columns but the digest."""
        return tuple(field.name for field in fields(cls))  # type: ignore[arg-type]

    @classmethod
    def select(cls, more: str = "") -> str:
        """Return the statement that reads the rows, with the digest as the last column."""
        return f"SELECT {', '.join(cls.columns())}, digest FROM {cls.table} {more}"

    @classmethod
    @cache
    def insert(cls) -> str:
        """Return the statement that writes a row in place of the one with the same key."""
        names = (*cls.columns(), "digest")
        return f"INSERT OR REPLACE INTO {cls.table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"

    @classmethod
    def of(cls, values: tuple[Any, ...]) -> Self | None:
        """Return the row of the values that `select` reads; None if they are not those that were written."""
        *plain, digest = values
        return cls(*plain) if digest == _digest(plain) else None

    def values(self) -> tuple[Value, ...]:
        """Return the values of all columns, with the digest as the last."""
        plain = list(vars(self).values())
        return (*plain, _digest(plain))

    @classmethod
    def write(cls, connection: sqlite3.Connection, rows: Iterable[Self]) -> None:
        """Write rows of one table."""
        connection.executemany(cls.insert(), [row.values() for row in rows])


@dataclass
class RunRow(Row):
    """A run. epochs: all of them once it has ended, see `EpochTable`; those of a run under way are `EpochRow`s."""

    table = "runs"

    id: int
    identity: str
    settings: str
    parameters: int
    train_examples: int
    test_examples: int
    status: Status = "waiting"
    diverged: int | None = None
    error: str | None = None
    starts: int = 0
    ends: int = 0
    session: int | None = None
    host: str | None = None
    began: float | None = None
    ended: float | None = None
    seconds: float | None = None
    epochs: bytes = b""


@dataclass
class EpochRow(Row):
    """Epochs of a run under way, which were written together; `first` is the number of the first."""

    table = "epochs"

    run: int
    first: int
    epochs: bytes


@dataclass
class SessionRow(Row):
    """A process that wrote the store; machine and versions are JSON."""

    table = "sessions"

    id: int
    began: float
    ended: float | None
    engine: str
    device: str
    host: str
    pid: int
    machine: str
    versions: str
    spec: str


def _digest(values: list[Value]) -> str:
    *rest, last = values
    block = last if isinstance(last, bytes) else b""  # hashed as it is: its text would take 40 times as long
    text = repr([*rest, len(block)] if isinstance(last, bytes) else values)
    state = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    state.update(block)
    return state.hexdigest()[:16]

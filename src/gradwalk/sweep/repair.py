"""Damaged rows of a store: found by their digests, set aside in a copy of the file, and removed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from gradwalk.files import atomic
from gradwalk.sweep.rows import EpochRow, Row, RunRow, SessionRow
from gradwalk.sweep.schema import transaction

_KEYS: dict[type[Row], tuple[str, ...]] = {RunRow: ("id",), EpochRow: ("run", "first"), SessionRow: ("id",)}


def remove_damaged(connection: sqlite3.Connection, path: Path) -> str | None:
    """Remove the damaged rows of a store, after copying the file, and return a sentence about them, None if none are.

    The runs of removed rows are trained again, to the same numbers.
    """
    damaged = {kind: _damaged(connection, kind) for kind in _KEYS}
    count = sum(map(len, damaged.values()))
    if not count:
        return None
    copy = path.with_name(f"{path.name}.damaged")
    with atomic(copy) as partial, closing(sqlite3.connect(partial)) as target:
        connection.backup(target)
    with transaction(connection):
        for kind, keys in damaged.items():
            where = " AND ".join(f"{name} IS ?" for name in _KEYS[kind])
            connection.executemany(f"DELETE FROM {kind.table} WHERE {where}", keys)
    rows = "1 row" if count == 1 else f"{count} rows"
    return (
        f"sweep: {rows} of {path} had been damaged and were removed, {len(damaged[RunRow])} of them runs, which are "
        f"trained again; the store as it was is {copy}"
    )


def _damaged(connection: sqlite3.Connection, kind: type[Row]) -> list[tuple[object, ...]]:
    """Return the keys of the rows whose digests do not match their values."""
    places = [kind.columns().index(name) for name in _KEYS[kind]]
    rows = connection.execute(kind.select()).fetchall()
    return [tuple(values[place] for place in places) for values in rows if kind.of(values) is None]

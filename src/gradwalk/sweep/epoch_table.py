"""The epochs of a run as one block of numbers: 56 bytes per epoch in the store, an `Epoch` record when one is read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields
from struct import Struct
from typing import overload

import numpy as np
from numpy.typing import NDArray

from gradwalk.train import Epoch

COLUMNS = tuple(field.name for field in fields(Epoch))
WHOLE = frozenset(field.name for field in fields(Epoch) if field.type in (int, "int"))

_NUMBER = np.dtype("<f8")  # whole numbers too: they are exact up to 2**53
_ROW = Struct(f"<{len(COLUMNS)}d")


class EpochTable(Sequence[Epoch]):
    """The epochs of a run, in order; as a sequence it holds `Epoch` records, which are made when they are read.

    >>> table = EpochTable.of([Epoch(1, 0.5, 3, 0.7, 4, 0, 0.1), Epoch(2, 0.4, 2, 0.6, 4, 1, 0.1)])
    >>> table[-1].train_mistakes, len(EpochTable(table.content)), table.column("clipped").tolist()
    (2, 2, [0, 1])
    """

    __slots__ = ("content",)

    def __init__(self, content: bytes) -> None:
        """Make a table of the numbers as bytes, epoch by epoch; raise a ValueError for bytes of another length."""
        if len(content) % _ROW.size:
            raise ValueError(f"its epochs must have {_ROW.size} bytes each, got {len(content)} for all")
        self.content = content

    @classmethod
    def of(cls, epochs: Iterable[Epoch]) -> EpochTable:
        """Return the table of these epochs."""
        return cls(b"".join(_ROW.pack(*epoch.row) for epoch in epochs))

    @classmethod
    def joined(cls, tables: Iterable[EpochTable]) -> EpochTable:
        """Return the epochs of several runs, one run after the other."""
        return cls(b"".join(table.content for table in tables))

    def merged(self, later: EpochTable) -> EpochTable:
        """Return the epochs of both tables in order, those of `later` where both have one."""
        rows = np.concatenate([self._values, later._values])
        _, last = np.unique(rows[::-1, 0], return_index=True)
        return EpochTable(rows[len(rows) - 1 - last].tobytes())

    def column(self, name: str) -> NDArray[np.float64] | NDArray[np.int64]:
        """Return one column: whole numbers for mistakes and counts, else floating-point ones."""
        values = self._values[:, COLUMNS.index(name)]
        return values.astype(np.int64) if name in WHOLE else values

    @property
    def _values(self) -> NDArray[np.float64]:
        return np.frombuffer(self.content, _NUMBER).reshape(-1, len(COLUMNS))

    def __len__(self) -> int:
        return len(self.content) // _ROW.size

    @overload
    def __getitem__(self, place: int) -> Epoch: ...
    @overload
    def __getitem__(self, place: slice) -> EpochTable: ...
    def __getitem__(self, place: int | slice) -> Epoch | EpochTable:
        if isinstance(place, slice):
            return EpochTable(self._values[place].tobytes())
        start = range(0, len(self.content), _ROW.size)[place]
        epoch, train, mistakes, test, test_mistakes, clipped, seconds = _ROW.unpack_from(self.content, start)
        whole = int(epoch), int(mistakes), int(test_mistakes), int(clipped)
        return Epoch(whole[0], _plain(train), whole[1], _plain(test), whole[2], whole[3], seconds)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(self.content)

    def __repr__(self) -> str:
        return f"EpochTable({len(self)} epochs)"


def _plain(value: float) -> float:
    """Return the value; NaN as the one object `math.nan`, so that records with it compare equal."""
    return math.nan if math.isnan(value) else value

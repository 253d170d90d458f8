"""The epochs of a run as one block of numbers: 56 bytes per epoch in the store, an `Epoch` record when one is read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import overload

import numpy as np
from numpy.typing import NDArray

from gradwalk.train import Epoch

COLUMNS = tuple(field.name for field in fields(Epoch))
WHOLE = frozenset(field.name for field in fields(Epoch) if field.type in (int, "int"))

_NUMBER = np.dtype("<f8")  # whole numbers too: they are exact up to 2**53


class EpochTable(Sequence[Epoch]):
    """The epochs of a run, in order; as a sequence it holds `Epoch` records, which are made when they are read.

    >>> table = EpochTable.of([Epoch(1, 0.5, 3, 0.7, 4, 0, 0.1), Epoch(2, 0.4, 2, 0.6, 4, 1, 0.1)])
    >>> table[-1].train_mistakes, len(EpochTable.unpack(table.pack())), table.column("clipped").tolist()
    (2, 2, [0, 1])
    """

    __slots__ = ("_values",)

    def __init__(self, values: NDArray[np.float64]) -> None:
        self._values = values

    @classmethod
    def of(cls, epochs: Iterable[Epoch]) -> EpochTable:
        """Return the table of these epochs."""
        return cls(np.array([epoch.row for epoch in epochs], _NUMBER).reshape(-1, len(COLUMNS)))

    @classmethod
    def unpack(cls, content: bytes) -> EpochTable:
        """Return the table that `pack` turned into bytes; raise a ValueError for bytes of another length."""
        return cls(np.frombuffer(content, _NUMBER).reshape(-1, len(COLUMNS)))

    def pack(self) -> bytes:
        """Return the numbers as bytes, epoch by epoch."""
        return self._values.tobytes()

    @classmethod
    def joined(cls, tables: Iterable[EpochTable]) -> EpochTable:
        """Return the epochs of several runs, one run after the other."""
        return cls(np.concatenate([table._values for table in tables]))

    def merged(self, later: EpochTable) -> EpochTable:
        """Return the epochs of both tables in order, those of `later` where both have one."""
        rows = np.concatenate([self._values, later._values])
        _, last = np.unique(rows[::-1, 0], return_index=True)
        return EpochTable(rows[len(rows) - 1 - last])

    def column(self, name: str) -> NDArray[np.float64] | NDArray[np.int64]:
        """Return one column: whole numbers for mistakes and counts, else floating-point ones."""
        values = self._values[:, COLUMNS.index(name)]
        return values.astype(np.int64) if name in WHOLE else values

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, place: int) -> Epoch: ...
    @overload
    def __getitem__(self, place: slice) -> EpochTable: ...
    def __getitem__(self, place: int | slice) -> Epoch | EpochTable:
        if isinstance(place, slice):
            return EpochTable(self._values[place])
        epoch, train, mistakes, test, test_mistakes, clipped, seconds = self._values[place].tolist()
        whole = int(epoch), int(mistakes), int(test_mistakes), int(clipped)
        return Epoch(whole[0], _plain(train), whole[1], _plain(test), whole[2], whole[3], seconds)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(self.pack())

    def __repr__(self) -> str:
        return f"EpochTable({len(self)} epochs)"


def _plain(value: float) -> float:
    """Return the value; NaN as the one object `math.nan`, so that records with it compare equal."""
    return math.nan if math.isnan(value) else value

"""The table behind a figure: named columns of equal length, and a few facts that hold for all rows, as one CSV file."""

import csv
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwalk.activations import Array

Column = NDArray[Any]

_NOTE = re.compile(r"# (\w+)(=|: )(.*)")  # a fact, or a word on how the table was made


@dataclass(frozen=True)
class Table:
    """Columns of numbers or of words, NaN where a number does not apply, and the facts all rows share.

    made: how the table came about, in words: scale, date, seconds, versions.
    """

    columns: dict[str, Column]
    facts: dict[str, float] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def where(self, **values: str) -> "Table":
        """Return the rows in which the named columns have these values.

        >>> Table({"kind": np.array(["a", "b"]), "x": np.array([1.0, 2.0])}).where(kind="b")["x"]
        array([2.])
        """
        rows = np.logical_and.reduce([self[name] == value for name, value in values.items()])
        return Table({name: column[rows] for name, column in self.columns.items()}, self.facts, self.made)


def write(table: Table, path: Path) -> None:
    """Write the table as CSV; first lines `# name=value` for facts, `# name: words` for `made`; every digit is kept."""
    with path.open("w", newline="", encoding="utf-8") as file:
        file.writelines(f"# {name}: {' '.join(words.split())}\n" for name, words in table.made.items())
        file.writelines(f"# {name}={value!r}\n" for name, value in table.facts.items())
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(table.columns)
        rows.writerows(zip(*(map(_cell, column.tolist()) for column in table.columns.values()), strict=True))


def read(path: Path) -> Table:
    """Return the table that `write` wrote there."""
    lines = path.read_text(encoding="utf-8").splitlines()
    notes = [found.groups() for found in map(_NOTE.fullmatch, lines) if found]
    names, *rows = csv.reader(line for line in lines if not line.startswith("#"))
    cells = zip(*rows, strict=True)
    columns = {name: _column(values) for name, values in zip(names, cells, strict=True)}
    facts = {name: float(value) for name, sign, value in notes if sign == "="}
    return Table(columns, facts, {name: words for name, sign, words in notes if sign == ": "})


def _cell(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return "" if np.isnan(value) else repr(value)


def _column(cells: tuple[str, ...]) -> Column:
    try:
        return _numbers(cells)
    except ValueError:
        return np.array(cells)


def _numbers(cells: tuple[str, ...]) -> Array:
    return np.array([float(cell) if cell else np.nan for cell in cells])

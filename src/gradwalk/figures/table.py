"""The table behind a figure: a pandas data frame, facts that hold for all of its rows, and how it was made.

It is kept as CSV beside the picture. The file begins with comment lines, `# name: words` for how the table was made and
`# name=value` for the facts; `pandas.read_csv(path, comment="#")` reads the rest.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

if TYPE_CHECKING:
    from pandas import DataFrame

_COMMENT = re.compile(r"# (\w+)(=|: )(.*)")


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """The numbers of a figure.

    frame: one row per point, run or epoch; NaN where a number does not apply. facts: numbers that hold for all rows.
    made: how the table was made, in words: scale, date, seconds, machine, versions.
    """

    frame: DataFrame
    facts: dict[str, float] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Any, facts: Mapping[str, float] | None = None, made: Mapping[str, str] | None = None) -> Table:
        """Return a table of columns by name or of one mapping per row, or of anything else that pandas accepts.

        >>> Table.of({"kind": ["a", "b"], "x": [1.0, 2.0]}).where(kind="b")["x"]
        array([2.])
        """
        from pandas import DataFrame

        return cls(DataFrame(data), dict(facts or {}), dict(made or {}))

    def __repr__(self) -> str:
        """Return the size of the table and its facts.

        >>> Table.of({"x": [1.0, 2.0]}, {"seed": 3})
        Table(2 rows, 1 columns, seed=3)
        """
        size = f"{len(self.frame)} rows", f"{len(self.frame.columns)} columns"
        return f"Table({', '.join([*size, *(f'{name}={value:g}' for name, value in self.facts.items())])})"

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return the values of a column."""
        return self.frame[name].to_numpy()

    def where(self, **values: str) -> Table:
        """Return the rows in which the named columns have these values."""
        frame = self.frame
        for name, value in values.items():
            frame = frame[frame[name] == value]
        return Table(frame, self.facts, self.made)


def write(table: Table, path: Path) -> None:
    """Write the table as CSV, with every digit of its numbers."""
    with path.open("w", newline="", encoding="utf-8") as file:
        file.writelines(f"# {name}: {' '.join(words.split())}\n" for name, words in table.made.items())
        file.writelines(f"# {name}={value!r}\n" for name, value in table.facts.items())
        table.frame.to_csv(file, index=False, lineterminator="\n")


def read(path: Path) -> Table:
    """Return the table that `write` wrote to that path."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    comments = next((place for place, line in enumerate(lines) if not line.startswith("#")), len(lines))
    matches = [match.groups() for match in map(_COMMENT.match, lines[:comments]) if match]
    names, *rows = csv.reader(lines[comments:])
    # Converted here: how many digits of a number pandas reads depends on its version.
    columns = {name: _column(cells) for name, cells in zip(names, zip(*rows, strict=True), strict=True)}
    facts = {name: _number(value) for name, sign, value in matches if sign == "="}
    return Table.of(columns, facts, {name: words for name, sign, words in matches if sign == ": "})


def _column(cells: Sequence[str]) -> list[Any]:
    """Return the cells as numbers, NaN where they are empty, or as they are if one of them is not a number."""
    try:
        return [_number(cell) for cell in cells]
    except ValueError:
        return list(cells)


def _number(text: str) -> float:
    return int(text) if text.lstrip("-").isdigit() else float(text or "nan")

"""How the command line speaks: tables, one-line warnings, and one line on stderr where something is wrong."""

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from gradwalk.gains import UnsteadyWarning

Line = tuple[str, str]


def show(lines: Sequence[Line], title: str) -> None:
    """Print a title, and a line a name with its value."""
    print(title)
    print_table(lines, header=False)


def print_table(rows: Sequence[Sequence[str]], header: bool = True) -> None:
    """Print rows of cells in columns; the first row is the header, and numbers under it stand to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=header, pad_edge=False, padding=(0, 3, 0, 0))
    first, *rest = rows
    for index, name in enumerate(first):
        table.add_column(name if header else "", justify="right" if header and index else "left")
    for row in rest if header else rows:
        table.add_row(*(Text(cell) for cell in row))  # Text: a name is no markup
    Console(highlight=False).print(table)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print the library's warnings as one plain line each, on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnsteadyWarning)
        yield
    for warning in caught:
        print(f"gradwalk: {warning.message}", file=sys.stderr)


def check_directory(path: Path) -> None:
    """Make a folder, and say before anything is computed that it cannot be written to."""
    path.mkdir(parents=True, exist_ok=True)
    probe = path / ".gradwalk"
    probe.touch()
    probe.unlink()


def fail(sentence: str, status: int = 2) -> NoReturn:
    """Print one line on stderr and leave."""
    print(f"gradwalk: {' '.join(sentence.split())}", file=sys.stderr)
    sys.exit(status)

"""Output of the command line: tables, one-line warnings, and one line on stderr for an error."""

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from gradwalk.interrupts import ignore_signals
from gradwalk.progress import print_on_stderr

Line = tuple[str, str]


def show(lines: Sequence[Line], title: str) -> None:
    """Print a title, and one line per name with its value."""
    print(one_line(title))
    print_table(lines, header=False)


def print_table(rows: Sequence[Sequence[str]], header: bool = True) -> None:
    """Print rows of cells in columns; the first row is the header, and all columns but the first are right-aligned."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=header, pad_edge=False, padding=(0, 3, 0, 0))
    first, *rest = rows
    for index, name in enumerate(first):
        table.add_column(name if header else "", justify="right" if header and index else "left")
    for row in rest if header else rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))  # as Text, so that Rich takes no name for markup
    Console(highlight=False).print(table)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Print each warning as one line on stderr, when it is raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_: warn(str(message))
        yield


def warn(message: str) -> None:
    """Print one line on stderr."""
    print_on_stderr(f"gradwalk: {one_line(message)}")


def one_line(message: str) -> str:
    r"""Return a message as one line of printable characters: others could be commands to the terminal.

    >>> one_line("a\tb\n\x1b[31mc")
    'a b ?[31mc'
    """
    return "".join(sign if sign.isprintable() else "?" for sign in " ".join(message.split()))


def check_directory(path: Path) -> None:
    """Make a folder, and raise before anything is computed if it is not writable."""
    path.mkdir(parents=True, exist_ok=True)
    probe = path / ".gradwalk"
    probe.touch()
    probe.unlink()


def fail(message: str, status: int = 2) -> NoReturn:
    """Print one line on stderr and exit."""
    warn(message)
    sys.exit(status)


def fail_interrupted(message: str) -> NoReturn:
    """Print one line on stderr and exit as after Ctrl-C; further signals are ignored."""
    ignore_signals()
    fail(message, 130)

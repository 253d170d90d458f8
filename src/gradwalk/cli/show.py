"""Output of the command line: tables, one-line warnings, and one line on stderr for an error."""

import json
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from gradwalk.interrupts import ignore_signals
from gradwalk.progress import print_on_stderr

Line = tuple[str, str]
JSON = "Print one JSON object and nothing else."


def show(lines: Sequence[Line], title: str) -> None:
    """Print a title, and one line per name with its value."""
    print(one_line(title))
    print_table(lines, header=False)


def print_table(rows: Sequence[Sequence[str]], header: bool = True) -> None:
    """Print rows of cells in columns; the first row is the header, and all columns but the first are right-aligned.

    A table with a header that is wider than the terminal is printed as one block of lines per row.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if header and _width(rows) > console.width:
        print_blocks(rows)
        return
    table = Table(box=None, show_header=header, pad_edge=False, padding=(0, 3, 0, 0))
    first, *rest = rows
    for index, name in enumerate(first):
        table.add_column(name if header else "", justify="right" if header and index else "left")
    for row in rest if header else rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))  # as Text, so that Rich takes no name for markup
    console.print(table)


def print_blocks(rows: Sequence[Sequence[str]]) -> None:
    """Print each row but the first as a block: its first cell, and below it the others with their names."""
    (_, *names), *rest = rows
    for row in rest:
        show([(f"- {name}", cell) for name, cell in zip(names, row[1:], strict=True) if cell], row[0])


def print_written(*paths: Path, as_json: bool = False, **more: Any) -> None:
    """Print the files that were written, or a JSON object with them and `more`."""
    if as_json:
        print(json.dumps({"written": [str(path) for path in paths]} | more))
    else:
        print(f"written: {', '.join(map(str, paths))}" + "".join(f", {value:,} {name}" for name, value in more.items()))


def _width(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of characters that a table takes, three between columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return sum(widths) + 3 * (len(widths) - 1)


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

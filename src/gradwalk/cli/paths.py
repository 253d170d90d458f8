"""Options and arguments of the command line that are paths; an empty one does not stand for the current folder."""

from pathlib import Path
from typing import Any

import typer


def path_option(text: str, *names: str, metavar: str = "PATH") -> Any:
    """Return a Typer option that is a path, with its help."""
    return typer.Option(*names, help=text, parser=named_path, metavar=metavar)


def path_argument(text: str, metavar: str) -> Any:
    """Return a Typer argument that is a path, with its help."""
    return typer.Argument(help=text, parser=named_path, metavar=metavar)


def named_path(text: str) -> Path:
    """Return the path that a text names."""
    if not str(text).strip():
        raise typer.BadParameter("a path must have a name, got ''; write . for the current folder")
    return Path(text)

"""`gradwalk data fetch`, `list` and `where`."""

from pathlib import Path
from typing import Annotated

import typer

from gradwalk import data
from gradwalk.cli.paths import path_option
from gradwalk.cli.show import print_table
from gradwalk.data import DATASETS, DataSource, Holding
from gradwalk.progress import is_terminal, print_on_stderr


def data_commands() -> typer.Typer:
    """Return the commands of `gradwalk data`."""
    build = typer.Typer(help="Fetch and list the data sets.", no_args_is_help=True, rich_markup_mode="markdown")
    for name, command in (("fetch", fetch), ("list", list_data), ("where", where)):
        build.command(name)(command)
    return build


def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(DATASETS.names)}.")],
    folder: Annotated[
        Path | None,
        path_option("Folder that holds the files (default: find or download them).", "--from", metavar="FOLDER"),
    ] = None,
) -> None:
    """Fetch a data set, check it against its known digests, and store it converted in the data folder.

    Examples:

    `gradwalk data fetch mnist`

    `gradwalk data fetch mnist --from ~/Downloads/mnist`

    `gradwalk data fetch timit --from /corpora/TIMIT`
    """
    if is_terminal():
        print_on_stderr(f"fetching {name}")
    path = data.fetch(name, folder=folder)
    held = _holding(DATASETS[name])
    print(f"{name}: {_count(held.train)} training examples, {_count(held.test)} test examples\n{path}")


def list_data() -> None:
    """List the data sets with the number of their training and test examples, and where they are stored."""
    rows = [("name", "contents", "train", "test", "size", "stored in")]
    print(f"data folder: {data.where()}")
    print_table([*rows, *(_row(source) for source in DATASETS)])


def where() -> None:
    """Print the data folder: GRADWALK_DATA if it is set, else the platform's cache folder."""
    print(data.where())


def _holding(source: DataSource) -> Holding:
    return Holding() if source.holding is None else source.holding()


def _row(source: DataSource) -> tuple[str, ...]:
    held = _holding(source)
    size = "" if held.size is None else f"{held.size / 1e6:.1f} MB"
    counts = (_count(number) for number in (held.train, held.test))
    return (source.name, held.contents or source.contents, *counts, size, _place(source, held))


def _place(source: DataSource, held: Holding) -> str:
    """Return the entry of the data folder that holds the data set, or the package that provides it."""
    if held.provider is not None:
        return held.provider
    if held.place is None:
        return "" if source.holding is None else "not fetched"
    inside = held.place.is_relative_to(data.where())
    return held.place.relative_to(data.where()).parts[0] if inside else str(held.place)


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"

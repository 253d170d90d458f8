"""`gradwalk data fetch`, `list` and `where`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from gradwalk import data
from gradwalk.cli.show import print_table
from gradwalk.data.holdings import Holding, holding


def data_commands() -> typer.Typer:
    """Return the commands of `gradwalk data`."""
    build = typer.Typer(
        help="Fetch the data sets, and see where they lie.", no_args_is_help=True, rich_markup_mode="markdown"
    )
    for name, command in (("fetch", fetch), ("list", list_data), ("where", where)):
        build.command(name)(command)
    return build


def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of {', '.join(data.NAMES)}.")],
    folder: Annotated[
        Path | None,
        typer.Option("--from", metavar="FOLDER", help="Where the files lie; left out, they are looked for."),
    ] = None,
) -> None:
    """Get a data set, check it against its known digests, and keep it converted in the data folder.

    Examples:

    `gradwalk data fetch mnist`

    `gradwalk data fetch mnist --from ~/Downloads/mnist`

    `gradwalk data fetch timit --from /corpora/TIMIT`
    """
    if sys.stderr.isatty():
        print(f"fetching {name}", file=sys.stderr)
    path = data.fetch(name, folder=folder)
    held = holding(name)
    print(f"{name}: {_count(held.train)} examples to train on, {_count(held.test)} held out\n{path}")


def list_data() -> None:
    """List the data sets: how many examples they have to train on and to test with, and where they lie."""
    rows = [("name", "what", "train", "test", "size", "where")]
    print(f"data folder: {data.where()}")
    print_table([*rows, *(_row(holding(name)) for name in data.NAMES)])


def where() -> None:
    """Print the data folder: GRADWALK_DATA where it is set, else the platform's cache folder."""
    print(data.where())


def _row(held: Holding) -> tuple[str, ...]:
    size = "" if held.size is None else f"{held.size / 1e6:.1f} MB"
    return (held.name, held.what, *(_count(number) for number in (held.train, held.test)), size, _place(held))


def _place(held: Holding) -> str:
    """Return what of the data folder holds the set."""
    if held.place is None:
        return "not fetched"
    inside = held.place.is_relative_to(data.where())
    return held.place.relative_to(data.where()).parts[0] if inside else "scikit-learn"


def _count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"

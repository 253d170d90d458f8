"""`gradwalk data fetch`, `list` and `where`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from gradwalk import data
from gradwalk.cli.command import Command, Group
from gradwalk.cli.completion import data_names, names_of
from gradwalk.cli.paths import path_option
from gradwalk.cli.show import JSON, print_table
from gradwalk.data import DATASETS, DataSource, Holding
from gradwalk.progress import is_terminal, print_on_stderr

_NAME = f"One of {', '.join(DATASETS.names)}."
Json = Annotated[bool, typer.Option("--json", help=JSON)]


def data_commands() -> typer.Typer:
    """Return the commands of `gradwalk data`."""
    help_text = "Fetch and list the data sets."
    build = typer.Typer(cls=Group, help=help_text, no_args_is_help=True, rich_markup_mode="markdown")
    for name, command in (("fetch", fetch), ("list", list_data), ("where", where)):
        build.command(name, cls=Command)(command)
    return build


def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help=_NAME, autocompletion=names_of(data_names))],
    folder: Annotated[
        Path | None,
        path_option("Folder that holds the files (default: find or download them).", "--from", metavar="FOLDER"),
    ] = None,
    as_json: Json = False,
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
    if as_json:
        print(json.dumps({"name": name, "train": held.train, "test": held.test, "path": str(path)}))
    else:
        print(f"{name}: {_count(held.train)} training examples, {_count(held.test)} test examples\n{path}")


def list_data(as_json: Json = False) -> None:
    """List the data sets with the number of their training and test examples, and where they are stored.

    Examples:

    `gradwalk data list`
    """
    if as_json:
        print(json.dumps({"folder": str(data.where()), "sets": {source.name: _record(source) for source in DATASETS}}))
        return
    rows = [("name", "contents", "train", "test", "size", "stored in")]
    print(f"data folder: {data.where()}")
    print_table([*rows, *(_row(source) for source in DATASETS)])


def where(as_json: Json = False) -> None:
    """Print the data folder: GRADWALK_DATA if it is set, else the platform's cache folder.

    Examples:

    `gradwalk data where`
    """
    print(json.dumps({"folder": str(data.where())}) if as_json else data.where())


def _record(source: DataSource) -> dict[str, str | int | None]:
    """Return the JSON object of a data set; what is unknown is null."""
    held = _holding(source)
    place = held.provider or (None if held.place is None else str(held.place))
    return {"train": held.train, "test": held.test, "bytes": held.size, "place": place}


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

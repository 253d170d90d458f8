"""The record of a data set: its name, its loader, and what is known about it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gradwalk.data.examples import Dataset, Scaling

Folder = str | Path | None


class Loader(Protocol):
    """A function that returns a data set with its first `examples` training examples (default: all)."""

    def __call__(
        self, *, examples: int | None = None, scaling: Scaling = "dimension", folder: Folder = None
    ) -> Dataset: ...


@dataclass(frozen=True)
class Holding:
    """The copy of a data set on this machine.

    place: the file or folder that holds it, None if there is none. size: its size in bytes. train, test: the number of
    examples in each split, None if unknown. contents: overrides that of the source. provider: the package that
    installed it.
    """

    place: Path | None = None
    size: int | None = None
    train: int | None = None
    test: int | None = None
    contents: str | None = None
    provider: str | None = None


@dataclass(frozen=True)
class DataSource:
    """A data set that can be loaded by name.

    Only `name` and `load` are required; register the record with `DATASETS.register(DataSource("toy", load_toy))`.

    title: the name as people write it (default: `name`). contents: what an example is, in a word or two.
    fetch: takes a folder or None, stores the data set in the data folder and returns the path.
    holding: describes the copy on this machine without loading it.
    stand_in: the name of the data set that figures use if this one cannot be found.
    full_size: the number of training examples, None if it depends on the copy.
    options: the names of further arguments of `load`.
    """

    name: str
    load: Loader
    title: str = ""
    contents: str = ""
    fetch: Callable[[Folder], Path] | None = None
    holding: Callable[[], Holding] | None = None
    stand_in: str | None = None
    full_size: int | None = None
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not callable(self.load):
            raise TypeError(f"DataSource: load must be a function that returns a Dataset, got load={self.load!r}")
        if not self.title:
            object.__setattr__(self, "title", self.name)


def size_of(place: Path | None) -> int | None:
    """Return the size of a file, or of all files below a folder, in bytes; None without a place."""
    if place is None:
        return None
    if place.is_file():
        return place.stat().st_size
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())

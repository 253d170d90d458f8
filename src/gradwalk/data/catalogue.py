"""The registry of data sets, and the functions that find a data set by its name."""

from pathlib import Path
from typing import Any

from gradwalk.data import digits, images, timit
from gradwalk.data.examples import Dataset, Scaling
from gradwalk.data.source import DataSource, Folder
from gradwalk.registry import Registry

DATASETS: Registry[DataSource] = Registry("data set", [*images.SOURCES, digits.SOURCE, timit.SOURCE])


def load(
    name: str,
    *,
    examples: int | None = None,
    scaling: Scaling = "dimension",
    folder: Folder = None,
    **options: Any,
) -> Dataset:
    """Return the data set of that name, fetched first if necessary.

    examples: use only the first `examples` of the training split (default: all). scaling: "dimension", "global" or
    "none", see `standardise`. folder: the folder that holds the files (default: the data folder, see `where`).
    options: further arguments of this data set alone; `DATASETS[name].options` lists them, and
    `help(DATASETS["timit"].load)` explains those of TIMIT.

    >>> load("digits", examples=1000)
    Dataset(name='digits', train=1000, test=355, width=64, classes=10)
    """
    source = DATASETS.find(name, "load")
    if unknown := [option for option in options if option not in source.options]:
        known = ", ".join(("examples", "scaling", "folder", *source.options))
        raise TypeError(f"load: {name} has no option {unknown[0]!r}; its options are {known}")
    return source.load(examples=examples, scaling=scaling, folder=folder, **options)


def fetch(name: str, *, folder: Folder = None) -> Path:
    """Store a data set in the data folder, converted, and return its path.

    The files are read from `folder`, or found in the data folder, or downloaded. Only complete files that match their
    known digests are stored. A data set that comes with an installed package stays where it is.
    """
    source = DATASETS.find(name, "fetch")
    if source.fetch is None:
        raise ValueError(f"fetch: the data set {name!r} is not kept in the data folder; load it with load({name!r})")
    return source.fetch(folder)


def title(name: str) -> str:
    """Return the name of a data set as people write it; an unknown name is returned unchanged.

    >>> title("mnist"), title("TIMIT sample")
    ('MNIST', 'TIMIT sample')
    """
    return DATASETS[name].title if name in DATASETS else name


def full_size(name: str) -> int | None:
    """Return the number of training examples of the whole data set; None if it is unknown, as for TIMIT.

    >>> full_size("mnist"), full_size("TIMIT sample")
    (60000, None)
    """
    return DATASETS[name].full_size if name in DATASETS else None


class Datasets:
    """A cache of data sets: each combination of name, examples and scaling is loaded once.

    Pass one object along where several steps of a computation need the same data. A data set that cannot be found is
    searched for once as well: later calls raise the same FileNotFoundError without trying the network again.

    >>> datasets = Datasets()
    >>> datasets.load("digits", 100) is datasets.load("digits", 100)
    True
    """

    def __init__(self) -> None:
        self._loaded: dict[tuple[str, int | None, Scaling], Dataset] = {}
        self._missing: dict[str, str] = {}

    def load(self, name: str, examples: int | None = None, scaling: Scaling = "dimension") -> Dataset:
        """Return the data set as `gradwalk.data.load` does, from memory if it was loaded before."""
        key = (name, examples, scaling)
        if name in self._missing:
            raise FileNotFoundError(self._missing[name])
        if key not in self._loaded:
            try:
                self._loaded[key] = load(name, examples=examples, scaling=scaling)
            except FileNotFoundError as error:
                self._missing[name] = str(error)
                raise
        return self._loaded[key]

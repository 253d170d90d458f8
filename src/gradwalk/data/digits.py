"""scikit-learn's digits: real data that are installed with scikit-learn and need no network."""

import zlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from gradwalk.data import idx
from gradwalk.data.examples import Dataset, Examples, Scaling, check_options, prepare
from gradwalk.data.source import DataSource, Folder, Holding, size_of

_CLASSES = 10
_CONTENT = "acacd9e4284d2ad00974548a128f6c3a"  # md5 of both splits
_SIZES = (1442, 355)  # training and test examples
_HELD_OUT = 0.2  # of each class
_SEED = 0  # of the split


def _load(*, examples: int | None = None, scaling: Scaling = "dimension", folder: Folder = None) -> Dataset:
    """Return 1,797 images of 8 by 8 pixels; a fixed fifth of each class is held out."""
    check_options(examples, scaling, most=_SIZES[0])
    path = _fetch(folder)
    try:
        table = np.loadtxt(path, delimiter=",")  # importing scikit-learn would take a hundred times as long
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise ValueError(f"data: digits cannot be read ({error}); reinstall scikit-learn") from None
    frames, classes = (table[:, :-1] / 16).astype(np.float32), table[:, -1].astype(np.int64)
    order = np.random.default_rng(_SEED).permutation(len(classes))
    members = [order[classes[order] == label] for label in range(_CLASSES)]
    held = np.isin(np.arange(len(order)), np.concatenate([m[: int(_HELD_OUT * len(m))] for m in members]))
    train, test = (Examples(frames[part], classes[part]) for part in (order[~held[order]], order[held[order]]))
    content = idx.md5(b"".join(part.tobytes() for split in (train, test) for part in (split.frames, split.labels)))
    if content != _CONTENT:
        raise ValueError(f"data: digits is not the known data set (md5 {content}); reinstall scikit-learn")
    return prepare(SOURCE.name, train, test, _CLASSES, examples, scaling, content=content)


def _fetch(folder: Folder) -> Path:
    """Return the file that scikit-learn installs."""
    if folder is not None:
        raise ValueError(f"data: digits comes with scikit-learn and takes no folder, got folder={str(folder)!r}")
    spec = find_spec("sklearn")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"


def _holding() -> Holding:
    path = _fetch(None)
    return Holding(path, size_of(path), *_SIZES, provider="scikit-learn")


SOURCE = DataSource("digits", _load, contents="digits 8x8", fetch=_fetch, holding=_holding, full_size=_SIZES[0])

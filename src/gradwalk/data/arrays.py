"""Data sets from arrays in memory."""

import hashlib

import numpy as np
from numpy.typing import ArrayLike

from gradwalk import checks
from gradwalk.data.examples import Dataset, Examples, Frames, Labels, Scaling, check_options, prepare

_Split = tuple[ArrayLike, ArrayLike]


def from_arrays(
    name: str,
    *,
    train: _Split,
    test: _Split,
    classes: int | None = None,
    examples: int | None = None,
    scaling: Scaling = "dimension",
) -> Dataset:
    """Return a data set made of arrays, standardised, with a digest of their contents.

    train, test: a pair (x, y) each. x has one row of numbers per example; further axes, as of images, are flattened.
    y has one label per example, a whole number from 0. The arrays are copied. classes: number of classes (default: the
    largest label plus 1). examples: use only the first `examples` of the training split (default: all). scaling: see
    `standardise`.

    The body of a loader for `DATASETS` can be a single call:

    >>> def load_toy(examples=None, scaling="dimension", folder=None):
    ...     x, y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 2, 0, 1, 2])
    ...     return from_arrays("toy", train=(x, y), test=(x[:3], y[:3]), examples=examples, scaling=scaling)
    >>> load_toy(examples=4)
    Dataset(name='toy', train=4, test=3, width=2, classes=3)
    """
    check_options(examples, scaling)
    used, held_out = _examples("train", train), _examples("test", test)
    if used.width != held_out.width:
        raise ValueError(
            f"from_arrays: train and test must have equally many numbers per example, got {used.width} and "
            f"{held_out.width}"
        )
    largest = max(int(split.labels.max()) for split in (used, held_out))
    count = largest + 1 if classes is None else checks.whole("from_arrays", "classes", classes)
    if count <= largest:
        raise ValueError(f"from_arrays: labels must be less than classes={count}, got the label {largest}")
    content = _digest(count, used, held_out)
    return prepare(name, used, held_out, count, examples, scaling, content=content)


def _examples(part: str, split: _Split) -> Examples:
    if not isinstance(split, tuple | list) or len(split) != 2:
        raise TypeError(f"from_arrays: {part} must be a pair (x, y), got {type(split).__name__}")
    frames, labels = _frames(part, split[0]), _labels(part, split[1])
    if len(frames) != len(labels):
        raise ValueError(
            f"from_arrays: {part} must have one label per example, got {len(frames)} rows and {len(labels)} labels"
        )
    return Examples(frames, labels)


def _frames(part: str, x: ArrayLike) -> Frames:
    array = np.asarray(x)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"from_arrays: x of {part} must hold real numbers, got dtype {array.dtype}")
    if array.ndim < 2 or not array.size:
        raise ValueError(f"from_arrays: x of {part} must have one row of numbers per example, got shape {array.shape}")
    with np.errstate(over="ignore"):
        frames = array.reshape(len(array), -1).astype(np.float32)
    if not np.isfinite(frames).all():
        raise ValueError(f"from_arrays: x of {part} must be finite in single precision, got NaN, inf or larger")
    return frames


def _labels(part: str, y: ArrayLike) -> Labels:
    array = np.asarray(y)
    if array.dtype.kind not in "iu":
        raise TypeError(f"from_arrays: y of {part} must hold whole numbers, got dtype {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"from_arrays: y of {part} must have one dimension, got shape {array.shape}")
    if array.size and array.min() < 0:
        raise ValueError(f"from_arrays: labels must be at least 0, got {array.min()} in {part}")
    return array.astype(np.int64)


def _digest(classes: int, *splits: Examples) -> str:
    state = hashlib.sha256(str(classes).encode())
    for split in splits:
        state.update(f"{split.frames.shape}".encode())
        state.update(split.frames.data)
        state.update(split.labels.data)
    return state.hexdigest()

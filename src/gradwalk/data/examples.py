"""The splits of a data set: frames, one label per example, and the neighbouring frames that an example includes."""

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gradwalk import checks

Frames = NDArray[np.float32]
Labels = NDArray[np.int64]
_Transform = tuple[NDArray[np.float64], NDArray[np.float64]]

Scaling = Literal["dimension", "global", "none"]
SCALINGS: tuple[Scaling, ...] = get_args(Scaling)
_BLOCK = 128  # rows at a time, so that they stay in the processor's cache


@dataclass(frozen=True, eq=False)
class Examples:
    """One split. An example is a frame with `context` frames on each side; `inputs` gathers them on demand.

    centres: the frame of each example (default: frame i for example i). bounds: the first and the last frame of each
    example's utterance, beyond which the edge frame is repeated (default: those of `frames`).

    >>> steps = Examples(np.array([[0], [1], [2]], np.float32), np.array([7, 8, 9]), context=1)
    >>> steps.inputs(np.array([0, 1]))
    array([[0., 0., 1.],
           [0., 1., 2.]], dtype=float32)
    """

    frames: Frames
    labels: Labels
    context: int = 0
    centres: Labels | None = None
    bounds: Labels | None = None

    def __post_init__(self) -> None:
        labels, centres = len(self.labels), len(self.frames if self.centres is None else self.centres)
        if self.frames.ndim != 2 or self.labels.ndim != 1 or centres != labels:
            shapes = f"frames of shape {self.frames.shape} and labels of shape {self.labels.shape}"
            raise ValueError(
                f"Examples: there must be one frame and one label per example, got {centres} and {labels} ({shapes})"
            )
        if self.bounds is not None and self.bounds.shape != (labels, 2):
            raise ValueError(f"Examples: bounds must have shape ({labels}, 2), got {self.bounds.shape}")

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def width(self) -> int:
        """The length of an input vector: 2 context + 1 times the number of features per frame."""
        return (2 * self.context + 1) * int(self.frames.shape[1])

    def inputs(self, rows: Labels) -> Frames:
        """Return the inputs of these examples, of shape (len(rows), width), with their frames in temporal order."""
        centres = rows if self.centres is None else self.centres[rows]
        if self.context == 0:
            return self.frames[centres]
        window = centres[:, None] + np.arange(-self.context, self.context + 1)
        if self.bounds is None:
            np.clip(window, 0, len(self.frames) - 1, out=window)
        else:
            bounds = self.bounds[rows]
            np.clip(window, bounds[:, :1], bounds[:, 1:], out=window)
        gathered: Frames = self.frames[window].reshape(len(rows), self.width)
        return gathered

    def first(self, count: int) -> "Examples":
        """Return the first `count` examples, or all if there are fewer, without copying them."""
        count = checks.whole("data", "examples", count)
        if self.centres is None and self.context == 0:
            return replace(self, frames=self.frames[:count], labels=self.labels[:count])
        centres = np.arange(len(self)) if self.centres is None else self.centres
        bounds = None if self.bounds is None else self.bounds[:count]
        return replace(self, labels=self.labels[:count], centres=centres[:count], bounds=bounds)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A training split, a test split, and a digest of everything that determines their numbers."""

    name: str
    train: Examples
    test: Examples
    classes: int
    digest: str

    def __repr__(self) -> str:
        sizes = f"train={len(self.train)}, test={len(self.test)}, width={self.train.width}, classes={self.classes}"
        return f"Dataset(name={self.name!r}, {sizes})"


def fingerprint(**facts: Any) -> str:
    """Return a short hexadecimal digest of named facts, whatever the order of their names.

    >>> fingerprint(a=1, b="x") == fingerprint(b="x", a=1)
    True
    """
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def check_options(examples: int | None, scaling: Scaling, most: int = checks.WIDEST) -> None:
    """Raise if the options of a loader are invalid, before it fetches or reads anything; most: of the examples."""
    checks.one_of("data", "scaling", scaling, SCALINGS)
    if examples is not None:
        checks.whole("data", "examples", examples, most=most)


def prepare(
    name: str, train: Examples, test: Examples, classes: int, examples: int | None, scaling: Scaling, **facts: Any
) -> Dataset:
    """Return the data set with its first `examples` training examples, standardised; its digest includes `facts`.

    The frames are overwritten, because copying them would take longer than everything else.
    """
    most = len(train)
    used = train if examples is None else train.first(checks.whole("data", "examples", examples, most=most))
    transform = _transform(name, used, test, scaling)
    for split in (used, test):
        _apply(transform, split.frames, split.frames)
    digest = fingerprint(name=name, examples=len(used), scaling=scaling, **facts)
    return Dataset(name, used, test, classes, digest)


def standardise(
    name: str, train: Examples, test: Examples, scaling: Scaling = "dimension"
) -> tuple[Examples, Examples]:
    """Return both splits, shifted and scaled by the mean and the variance of the training examples' own frames.

    scaling "dimension": zero mean and unit variance in each feature of a frame; a feature that is constant in training
    is 0 in both splits. "global": zero mean in each feature, and one factor for all, which makes their mean variance
    1. "none": unchanged. With context, a feature is scaled equally at every position in the window.
    """
    transform = _transform(name, train, test, scaling)
    scaled = [_apply(transform, split.frames, np.empty_like(split.frames)) for split in (train, test)]
    return replace(train, frames=scaled[0]), replace(test, frames=scaled[1])


def _transform(name: str, train: Examples, test: Examples, scaling: Scaling) -> _Transform | None:
    """Return the mean to subtract and the factor to multiply by, None for scaling "none"."""
    checks.one_of("data", "scaling", scaling, SCALINGS)
    if not len(train):
        raise ValueError(f"data: {name} must have at least one training example, got none")
    for split in (train, test):
        if not np.isfinite(np.add.reduce(split.frames, axis=None, dtype=np.float64)):
            raise ValueError(f"data: {name} must hold finite numbers, got NaN or inf")
    if scaling == "none":
        return None
    mean, variance = _moments(train)
    if scaling == "global":
        variance = np.where(variance > 0, variance.mean(), 0)
    return mean, np.divide(1, np.sqrt(variance), out=np.zeros_like(variance), where=variance > 0)


def _moments(split: Examples) -> _Transform:
    """Return the mean and the variance of each feature over the examples' own frames, in double precision.

    They are computed relative to the first frame: a constant feature has a variance of exactly 0, whatever its value.
    """
    count, width = len(split), split.frames.shape[1]
    origin, total, squares = np.zeros((3, width))
    for start in range(0, count, _BLOCK):
        rows = slice(start, start + _BLOCK)
        block = split.frames[rows if split.centres is None else split.centres[rows]].astype(np.float64)
        if not start:
            origin = block[0].copy()
        block -= origin
        total += block.sum(axis=0)
        squares += np.einsum("ij,ij->j", block, block)
    shift = total / count
    return origin + shift, np.maximum(squares / count - shift**2, 0)


def _apply(transform: _Transform | None, frames: Frames, out: Frames) -> Frames:
    """Return (frames - mean) factor in `out`; the mean is subtracted in two parts to keep it in single precision."""
    if transform is None:
        if out is not frames:
            out[:] = frames
        return out
    mean, factor = transform
    coarse, scale = mean.astype(np.float32), factor.astype(np.float32)
    fine = (mean - coarse).astype(np.float32)
    for start in range(0, len(frames), _BLOCK):
        rows = slice(start, start + _BLOCK)
        block = np.subtract(frames[rows], coarse, out=out[rows])
        block -= fine
        block *= scale
    return out

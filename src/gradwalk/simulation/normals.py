"""Normal numbers in single precision, and what the samplers do with rows of them."""

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy

from gradwalk.activations import Array, Indices

_MERGED = 1e-3  # the sine of an angle below which two vectors count as parallel
_FAINT = 1e-2  # the part of a vector that may be left by Gram-Schmidt before its rounding errors are removed
_SHORT = 64  # components up to which einsum is faster than vecdot, which calls BLAS once per row
_FEW = 2**13  # numbers up to which BLAS adds them up on one thread: in the same order, whatever the number of cores


class Normals:
    """Standard normal numbers in single precision by the Box-Muller transform, three times as fast as NumPy's.

    The radius has 32 random bits, so no number exceeds 6.7 standard deviations; of 4e10 normal numbers one would.
    Numbers are generated for several draws of one size together, because calls on short arrays cost more than the
    numbers themselves; those that are left when a larger draw comes are discarded.
    """

    _CHUNK = 1 << 16

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self.bits = np.random.SFC64(seed)
        self.rng = np.random.Generator(self.bits)
        self._ready = np.empty(0, dtype=np.float32)

    def mark(self) -> Callable[[], None]:
        """Return a function that rewinds to this point, to be called once: callers write into the numbers they get."""
        state, ready = self.bits.state, self._ready.copy()

        def rewind() -> None:
            self.bits.state, self._ready = state, ready

        return rewind

    def draw(self, rows: int, columns: int) -> Array:
        """Return an array of normal numbers that the caller may overwrite."""
        count = rows * columns
        if len(self._ready) < count:
            several = count * max(self._CHUNK // max(count, 1), 1)
            self._ready = self._make(several + several % 2)
        numbers, self._ready = self._ready[:count], self._ready[count:]
        return numbers.reshape(rows, columns)

    def mask(self, shape: tuple[int, ...], rate: float) -> Array:
        """Return a mask of dropout: 1 / (1 - rate) for a unit that is kept, 0 for one that is not."""
        kept = self.rng.random(shape, dtype=np.float32) >= np.float32(rate)
        return kept.astype(np.float32) * np.float32(1 / (1 - rate))

    def _make(self, count: int) -> Array:
        values = self.bits.random_raw(count // 2).view(np.uint32).astype(np.float32)
        radius, angle = values[: count // 2], values[count // 2 :]
        radius *= np.float32(2.0**-32)
        radius += np.float32(2.0**-33)  # never 0
        np.log(radius, out=radius)
        radius *= np.float32(-2)
        np.sqrt(radius, out=radius)
        angle *= np.float32(2 * math.pi / 2**32)
        cosine = np.cos(angle)
        np.sin(angle, out=angle)
        angle *= radius
        radius *= cosine
        return values


def gaussian_image(normals: Normals, walks: int, width: int, width_in: int) -> Array:
    """Return W h for a Gaussian W and an h of length sqrt(width_in): independent standard normal components."""
    return normals.draw(walks, width)


def dot(left: Array, right: Array) -> Array:
    """Return the scalar products of the rows, in double precision."""
    if left.shape[-1] > _SHORT:
        products = np.vecdot(left, right)
    elif left.size > _FEW:
        products = np.einsum("...n,...n", left, right)
    else:
        products = left * right @ _ones(left.shape[-1], left.dtype)
    return np.asarray(products, np.float64)


def dots(vectors: Sequence[Array], pairs: Sequence[tuple[int, int]]) -> Array:
    """Return the scalar products of some pairs of vectors (walk, component), one row per pair, in double precision."""
    rows, units = vectors[0].shape
    if units > _SHORT or rows * units > 2 * _FEW:
        return np.stack([dot(vectors[i], vectors[j]) for i, j in pairs])
    parts = -(-rows * units // _FEW)
    height = -(-rows // parts)
    products = np.empty((len(pairs), parts * height, units), vectors[0].dtype)
    products[:, rows:] = 0.0
    for (i, j), out in zip(pairs, products, strict=True):
        np.multiply(vectors[i], vectors[j], out=out[:rows])
    sums = products.reshape(-1, height, units) @ _ones(units, products.dtype)
    return sums.reshape(len(pairs), -1)[:, :rows].astype(np.float64)


@cache
def _ones(count: int, dtype: np.dtype[Any]) -> Array:
    return np.ones(count, dtype)


def log_chi2_mean(freedom: Array | Indices | float) -> Array:
    """Return the mean of ln chi^2 by degrees of freedom."""
    return np.asarray(scipy.special.digamma(np.asarray(freedom) / 2) + math.log(2))


@lru_cache(maxsize=256)
def log_chi2_mean_of(freedom: int) -> float:
    """Return the same for one number."""
    return float(log_chi2_mean(freedom))


def column(values: Array) -> Array:
    """Return one number per row as a column in single precision, to multiply rows with."""
    return values.astype(np.float32)[..., None]


def orthonormalise(vectors: Array, least: float = 1e-6) -> Array:
    """Make the vectors of each walk orthonormal in place, by Gram-Schmidt, and return the upper triangular factor.

    `vectors` has the axes vector, walk, component; the factor R, in double precision, the axes row, column, walk:
    vector j was the sum of R[i, j] times the new vector i. A vector of which less than the part `least` is orthogonal
    to those before it becomes 0.
    """
    factor = np.zeros((len(vectors), *vectors.shape[:2]))
    for j, vector in enumerate(vectors):
        length = np.sqrt(dot(vector, vector))
        whole = np.sqrt((factor[:, j] ** 2).sum(axis=0) + length**2)
        faint = np.flatnonzero(length < _FAINT * whole)
        if faint.size:
            length[faint] = _cleaned(vectors, j, faint)
        length[length <= least * whole] = 0.0
        vector *= column(np.divide(1.0, length, out=np.zeros_like(length), where=length > 0))
        factor[j, j], rest = length, vectors[j + 1 :]
        if len(rest):
            factor[j, j + 1 :] = dot(vector, rest)
            rest -= vector * column(factor[j, j + 1 :])
    return factor


def _cleaned(vectors: Array, j: int, walks: Indices) -> Array:
    """Make vector j of these walks orthogonal to those before it once more, and return its length."""
    vector = vectors[j, walks]
    for before in vectors[:j, walks]:
        vector -= before * column(dot(before, vector))
    vectors[j, walks] = vector
    return np.sqrt(dot(vector, vector))


def spanned(vectors: Array, x: Array) -> tuple[Array, Array]:
    """Return orthonormal vectors that span the given ones of each walk, and the coordinates of these.

    `vectors` has the axes vector, walk, component, and is overwritten; the coordinates, those of `orthonormalise`.
    Where the vectors fill the space, the first of the orthonormal ones is along x: a Haar matrix maps the others freely
    to what is across the source of x.
    """
    units = vectors.shape[2]
    if len(vectors) < units:
        return vectors, orthonormalise(vectors)
    vectors = np.concatenate([x[None], vectors])
    factor = orthonormalise(vectors)
    lengths = np.einsum("jjw->jw", factor)
    lengths[0] = np.inf
    kept = np.argsort(-lengths, axis=0)[:units, :, None]  # the others depend on these
    return np.take_along_axis(vectors, kept, 0), np.take_along_axis(factor[:, 1:], kept.transpose(0, 2, 1), 0)


def merged(cosine: Array) -> Array:
    """Return the cosine of the angle between two vectors, 1 or -1 where they count as parallel."""
    return np.where(1 - cosine**2 < _MERGED**2, np.sign(cosine), cosine)


class Span(NamedTuple):
    """The plane of two unit vectors per walk (vector, walk, component), and the cosine of the angle between them.

    Where the sine of the angle is below 1e-3, which single precision does not resolve, it is the line of the first.
    """

    vectors: Array
    cosine: Array

    @classmethod
    def of(cls, vectors: Array) -> "Span":
        """Return the span of two unit vectors per walk."""
        return cls(vectors, merged(dot(vectors[0], vectors[1])))

    def along(self, vectors: Array) -> Array:
        """Return the coordinates of the projections of vectors to the plane."""
        return self.solved(dot(self.vectors[:, None], vectors))

    def solved(self, products: Array) -> Array:
        """Return the coordinates of vectors in the plane, given their scalar products with the unit vectors."""
        squared = 1 - self.cosine**2
        inverse = np.divide(1.0, squared, out=np.zeros_like(squared), where=squared > 0)
        second = (products[1] - self.cosine * products[0]) * inverse
        return np.stack([products[0] - self.cosine * second, second])

    def add(self, vectors: Array, coordinates: Array) -> None:
        """Add to vectors, in place, what has these coordinates in the plane."""
        for unit, each in zip(self.vectors, coordinates, strict=True):
            vectors += unit * column(each)

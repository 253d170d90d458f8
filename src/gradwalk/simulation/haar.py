"""Haar orthogonal matrices without the matrices: the image of a vector, and the transposed matrix given that image.

W has orthonormal rows, or columns where those are fewer, scaled so that its entries have variance 1 / width_in.
"""

import math
from typing import NamedTuple

import numpy as np

from gradwalk.activations import Array
from gradwalk.simulation.normals import Normals, Span, column, dot, orthonormalise


def image(normals: Normals, walks: int, width: int, width_in: int) -> Array:
    """Return W h for an h of length sqrt(width_in), one row per walk: uniform on a sphere, or a projection of it."""
    x = normals.draw(walks, width)
    squared = dot(x, x)
    if width < width_in:  # x is a projection of a vector uniform on the sphere of the larger space
        squared += 2 * normals.rng.standard_gamma((width_in - width) / 2, walks)
    x *= column(math.sqrt(max(width_in, width)) / np.sqrt(squared))
    return x


def transposed(normals: Normals, delta: Array, overlap: Array, along: Array, width_out: int) -> float:
    """Turn standard normal `delta` in place into W^T u of a unit vector u, up to a factor; return its logarithm.

    `along` is the unit vector of h, `overlap` the scalar product of u with the image of h.
    """
    n = delta.shape[1]
    cosine = overlap / math.sqrt(max(n, width_out))
    rest = np.maximum(1 - cosine**2, 0.0)
    if 1 < n < width_out:  # only a random part of the component orthogonal to the image passes
        rest *= normals.rng.beta((n - 1) / 2, (width_out - n) / 2, len(rest))
    delta -= along * column(dot(along, delta))
    delta *= column(np.sqrt(rest / dot(delta, delta)) if n > 1 else np.zeros(len(rest)))
    delta += along * column(cosine)
    return 0.5 * math.log(max(width_out / n, 1.0))


def frame(normals: Normals, vectors: Array, missing: int) -> None:
    """Turn independent normal vectors in place into components of a uniformly distributed orthonormal frame.

    `vectors` has the axes vector, walk, component. The space of the frame has `missing` dimensions more than the one
    that the vectors are drawn from.
    """
    if not missing:
        orthonormalise(vectors)
        return
    whole = np.concatenate([vectors, _hidden(normals, len(vectors), vectors.shape[1], missing)], axis=2)
    orthonormalise(whole)
    vectors[...] = whole[..., : vectors.shape[2]]


def _hidden(normals: Normals, count: int, walks: int, dimensions: int) -> Array:
    """Return vectors with the scalar products of independent normal vectors of that many dimensions.

    At most as many components are drawn as there are vectors: of a larger matrix, the triangular factor (Bartlett).
    """
    columns = min(count, dimensions)
    hidden = normals.draw(count * walks, columns).reshape(count, walks, columns)
    if dimensions > count:
        for j in range(count):
            hidden[j, :, j] = np.sqrt(2 * normals.rng.standard_gamma((dimensions - j) / 2, walks))
            hidden[j, :, j + 1 :] = 0.0
    return hidden


def transposed_frame(normals: Normals, delta: Array, overlap: Array, along: Array, width_out: int) -> float:
    """Turn standard normal `delta` in place into W^T u of orthonormal u, up to a factor; return its logarithm.

    As `transposed`, for several vectors: `delta` has the axes vector, walk, component, and `overlap` vector, walk. With
    b the components of the W^T u along h, their parts across have the scalar products 1 - b b^T, whose square root is
    1 - b b^T (1 - sqrt(1 - |b|^2)) / |b|^2. As many u as the larger space has dimensions must have the first one along
    the image of h.
    """
    n = delta.shape[2]
    b = overlap / math.sqrt(max(n, width_out))
    delta -= along * column(dot(along, delta))
    if len(delta) == max(n, width_out):
        delta[0] = 0.0  # nothing of it is across h
        frame(normals, delta[1:], max(width_out - n, 0))
    else:
        frame(normals, delta, max(width_out - n, 0))
    squared = np.minimum((b**2).sum(axis=0), 1.0)
    bend = (1 - np.sqrt(1 - squared)) / np.maximum(squared, 1e-30)
    mean = (delta * column(b)).sum(axis=0)
    delta += (along - mean * column(bend)) * column(b)
    return 0.5 * math.log(max(width_out / n, 1.0))


class Mix(NamedTuple):
    """How two normal vectors are mixed into the parts of W^T u_1 and W^T u_2 outside a plane, one number per walk.

    The first is `first` times the first vector, the second the sum of `mixed` times the first and `second` times the
    second. Inside the plane they have the coordinates `known`; all is times exp(log_factor).
    """

    first: Array
    mixed: Array
    second: Array
    known: Array
    log_factor: float


def mix(normals: Normals, delta: Array, inside: Array, span: Span, cosine: Array, overlap: Array, width: int) -> Mix:
    """Return how normal vectors `delta` are mixed into W^T u of two unit vectors u, given the images of a plane.

    `inside[i, j]` is the scalar product of vector i of the plane with delta_j, `cosine` that of the u, `overlap[i, j]`
    that of the image of vector i with u_j, and `width` the number of outputs of W. The parts of the W^T u outside the
    plane are uniformly oriented, with the scalar products that are left.
    """
    n = delta.shape[2]
    b = overlap / math.sqrt(max(n, width))
    known = span.solved(b)
    drawn = _products(delta, delta) - _contracted(inside, span.solved(inside))
    if width > n:
        hidden = _hidden(normals, 2, delta.shape[1], width - n)
        drawn += _products(hidden, hidden)
    left = np.stack([np.ones_like(cosine), cosine, np.ones_like(cosine)]) - _contracted(b, known)
    (one, between, other), (first, mixed, second) = _triangular(drawn), _triangular(left)
    across = np.divide(second, other, out=np.zeros_like(other), where=other > 3e-3 * np.hypot(between, other))
    log_factor = 0.5 * math.log(max(width / n, 1.0))
    return Mix(first / one, (mixed - across * between) / one, across, known, log_factor)


def _products(left: Array, right: Array) -> Array:
    """Return the scalar products 11, 12 and 22 of two pairs of vectors."""
    return np.stack([dot(left[0], right[0]), dot(left[0], right[1]), dot(left[1], right[1])])


def _contracted(left: Array, right: Array) -> Array:
    """Return the elements 11, 12 and 22 of the product of a transposed 2 by 2 matrix with another, per walk."""
    return np.stack([(left[:, i] * right[:, j]).sum(axis=0) for i, j in ((0, 0), (0, 1), (1, 1))])


def _triangular(products: Array) -> tuple[Array, Array, Array]:
    """Return the elements 11, 12 and 22 of the upper triangular R with R^T R a matrix of scalar products."""
    first = np.sqrt(np.maximum(products[0], 1e-14))
    mixed = products[1] / first
    return first, mixed, np.sqrt(np.maximum(products[2] - mixed**2, 0.0))

"""Haar orthogonal matrices without the matrices: the image of a vector, and the transposed matrix given that image.

W has orthonormal rows, or columns where those are fewer, scaled so that its entries have variance 1 / width_in.
"""

import math
from typing import NamedTuple

import numpy as np

from gradwalk.activations import Array
from gradwalk.simulation.gram import gram, solved, triangular
from gradwalk.simulation.normals import Normals, column, dot, orthonormalise


def log_factor(width: int, width_out: int) -> float:
    """Return ln of the factor that the functions below leave out of W^T u."""
    return 0.5 * math.log(max(width_out / width, 1.0))


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
    return log_factor(n, width_out)


def transposed_parts(
    normals: Normals, across: Array, overlap: Array, width: int, width_out: int
) -> tuple[Array, Array]:
    """Return what W^T u of orthonormal u are made of, up to a factor: shares of h and of random vectors across it.

    `across[i, j]` is the scalar product of two of these vectors, `overlap[j]` that of the image of h with u_j. Returns
    the shares of the unit vector of h (u_j, walk), and those of each random vector (vector, u_j, walk). See
    `transposed_frame`, which does the same to vectors.
    """
    b = overlap / math.sqrt(max(width, width_out))
    if width == 1:  # nothing is across h
        return b, np.zeros_like(across)
    if width_out > width:
        count, walks = overlap.shape
        across = np.asarray(across + gram(_hidden(normals, count, walks, width_out - width)))
    identity = np.broadcast_to(np.eye(len(b))[..., None], across.shape)
    shares = solved(triangular(across), identity).swapaxes(0, 1)
    squared = np.minimum((b**2).sum(axis=0), 1.0)
    bend = (1 - np.sqrt(1 - squared)) / np.maximum(squared, 1e-30)
    return b, shares - (shares * b).sum(axis=1)[:, None] * (b * bend)


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
    return log_factor(n, width_out)


class Mix(NamedTuple):
    """How two random vectors are mixed into the parts of W^T u_1 and W^T u_2 outside a plane, one number per walk.

    The first is `first` times the first vector, the second the sum of `mixed` times the first and `second` times the
    second.
    """

    first: Array
    mixed: Array
    second: Array


def mix(normals: Normals, across: Array, left: Array, missing: int) -> Mix:
    """Return how random vectors are mixed into W^T u of two unit vectors u, given the images of a plane.

    `across` are the scalar products of the random vectors (vector, vector, walk) outside the plane, `left` those that
    the W^T u must have there, where their parts are uniformly oriented. The space of the images has `missing` more
    dimensions.
    """
    if missing > 0:
        across = across + gram(_hidden(normals, 2, across.shape[2], missing))
    (one, between, other), (first, mixed, second) = _triangular(across), _triangular(left)
    share = np.divide(second, other, out=np.zeros_like(other), where=other > 3e-3 * np.hypot(between, other))
    return Mix(first / one, (mixed - share * between) / one, share)


def _triangular(products: Array) -> tuple[Array, Array, Array]:
    """Return the elements 11, 12 and 22 of the upper triangular R with R^T R a matrix of scalar products."""
    first = np.sqrt(np.maximum(products[0, 0], 1e-14))
    mixed = products[0, 1] / first
    return first, mixed, np.sqrt(np.maximum(products[1, 1] - mixed**2, 0.0))

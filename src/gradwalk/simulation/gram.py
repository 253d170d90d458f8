"""Scalar products of a few vectors per walk, which can take the place of the vectors.

Arrays of scalar products have the walk as their last axis.
"""

from functools import cache
from itertools import combinations, combinations_with_replacement

import numpy as np

from gradwalk.activations import Array, Indices
from gradwalk.simulation.normals import dots

_SINGULAR = 1e-12  # squared part of a vector outside the span of those before it that counts as rounding error
_NEARLY = 1e-2  # squared part below which single precision is not enough
_CORRELATED = 0.25  # sum of squared cosines between vectors up to which none of them has a smaller part
_LEAST = 1e-30  # bounds squared lengths that are divided by


def gram(vectors: Array) -> Array:
    """Return the scalar products of vectors (vector, walk, component) with one another (vector, vector, walk)."""
    return dots(list(vectors), pairs(len(vectors)))[places(len(vectors))]


@cache
def pairs(count: int) -> list[tuple[int, int]]:
    """Return the pairs of so many vectors, each with itself and with those after it."""
    return list(combinations_with_replacement(range(count), 2))


@cache
def places(count: int) -> Indices:
    """Return where each of so many vectors and each other one are in `pairs` (vector, vector)."""
    table = np.empty((count, count), np.intp)
    for place, (i, j) in enumerate(pairs(count)):
        table[i, j] = table[j, i] = place
    return table


def triangular(products: Array) -> Array:
    """Return the upper triangular R (row, column, walk) with R^T R the scalar products of a few vectors.

    By Cholesky's method. A vector that depends on those before it has a row of zeros.
    """
    first = products[:1] / np.sqrt(np.maximum(products[0, 0], _LEAST))
    if len(products) == 1:
        return np.asarray(first)
    factor = np.zeros_like(products)
    factor[:1] = first
    for j in range(1, len(products)):
        rest = products[j, j:] - (factor[:j, j, None] * factor[:j, j:]).sum(axis=0)
        factor[j, j:] = rest / np.sqrt(np.where(rest[0] > _SINGULAR * products[j, j], rest[0], np.inf))
    return factor


def solved(factor: Array, products: Array) -> Array:
    """Return scalar products with the orthonormal vectors of a triangular factor, given those with the vectors.

    That is R^-T times `products` (vector, ..., walk).
    """
    if len(products) == 1:
        return np.asarray(products / np.where(factor[0] > 0, factor[0], np.inf))
    result = np.empty(products.shape)
    for j, rest in enumerate(products):
        if j:
            rest = rest - np.einsum("iw,i...w->...w", factor[:j, j], result[:j])
        result[j] = rest / np.where(factor[j, j] > 0, factor[j, j], np.inf)
    return result


def nearly_dependent(products: Array) -> Indices:
    """Return the walks in which combinations of the vectors can cancel too far for single precision."""
    if len(products) == 2:
        (walks,) = np.nonzero(products[0, 1] ** 2 > (1 - _NEARLY) * products[0, 0] * products[1, 1])
    else:
        squared = [np.maximum(products[j, j], _LEAST) for j in range(len(products))]
        cosines = [products[i, j] ** 2 / (squared[i] * squared[j]) for i, j in combinations(range(len(products)), 2)]
        walks = np.flatnonzero(sum(cosines) > _CORRELATED)
    if walks.size:
        few = products[..., walks]
        lengths = np.einsum("jjw->jw", triangular(few)) ** 2
        walks = walks[(lengths < _NEARLY * np.maximum(np.einsum("jjw->jw", few), _LEAST)).any(axis=0)]
    return walks

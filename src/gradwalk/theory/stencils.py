"""Interpolation and derivatives on a uniform grid, as matrices that act on the values there."""

from functools import lru_cache

import numpy as np

from gradwalk.activations import Array

_ORDER = 6
_OFFSETS = np.arange(_ORDER)
_OTHERS = np.array([[i for i in range(_ORDER) if i != j] for j in range(_ORDER)])
_DENOMINATORS = np.array([np.prod(j - _OTHERS[j]) for j in range(_ORDER)], dtype=np.float64)
_WINDOW = 7


def interpolation(positions: Array, count: int) -> Array:
    """Return the matrix that takes values at 0, 1, ..., count - 1 to those at positions between, by quintics."""
    first = np.clip(np.floor(positions).astype(int) - 2, 0, count - _ORDER)
    differences = (positions - first)[:, None] - _OFFSETS
    matrix = np.zeros((len(positions), count))
    matrix[np.arange(len(first))[:, None], first[:, None] + _OFFSETS] = (
        differences[:, _OTHERS].prod(axis=2) / _DENOMINATORS
    )
    return matrix


def linear_interpolation(positions: Array, count: int) -> Array:
    """Return the matrix for positions between, by straight lines: less exact, but without negative entries."""
    first = np.clip(np.floor(positions).astype(int), 0, count - 2)
    matrix, rows = np.zeros((len(positions), count)), np.arange(len(first))
    matrix[rows, first], matrix[rows, first + 1] = 1 - (positions - first), positions - first
    return matrix


@lru_cache(maxsize=64)
def derivative(count: int) -> Array:
    """Return the matrix that takes values on the grid to their derivatives there, for a spacing of 1."""
    matrix = np.zeros((count, count))
    from_values = np.linalg.inv(np.vander(np.arange(_WINDOW) - 3.0, increasing=True))
    for row in range(count):
        first = min(max(row - 3, 0), count - _WINDOW)
        slopes = np.arange(1, _WINDOW) * (row - first - 3.0) ** np.arange(_WINDOW - 1)
        matrix[row, first : first + _WINDOW] = slopes @ from_values[1:]
    return matrix

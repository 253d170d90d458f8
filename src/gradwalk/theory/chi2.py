"""The logarithm of a chi-squared variable: digamma and trigamma at half-integers.

scipy.special has them, but takes longer to load than everything that `gain` and `init_` need of it.
"""

import math
from functools import cache

import numpy as np

from gradwalk.activations import Array, Indices

_FAR = 32  # degrees of freedom from which on the asymptotic series have full precision


def log_chi2(freedom: Indices) -> tuple[Array, Array]:
    """Return mean and variance of ln chi^2 by degrees of freedom.

    >>> [values.round(6).tolist() for values in log_chi2(np.array([1, 2, 100]))]
    [[-1.270363, 0.115932, 4.595137], [4.934802, 1.644934, 0.020201]]
    """
    means, variances = _series(np.maximum(freedom, _FAR) / 2)
    few = freedom < _FAR
    if few.any():
        near = np.minimum(freedom, _FAR)
        means, variances = (
            np.where(few, known[near], far) for known, far in zip(_near(), (means, variances), strict=True)
        )
    return means + math.log(2), variances


def log_chi2_of(freedom: int) -> tuple[float, float]:
    """Return the same for one number."""
    mean, variance = log_chi2(np.array([freedom]))
    return float(mean[0]), float(variance[0])


def _series(x: Array) -> tuple[Array, Array]:
    """Return digamma and trigamma at large x (Abramowitz and Stegun 6.3.18 and 6.4.12)."""
    y = 1 / x**2
    first = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y / 132))))
    second = y * (1 / 6 - y * (1 / 30 - y * (1 / 42 - y * (1 / 30 - y * 5 / 66))))
    return np.log(x) - 0.5 / x - first, (1 + 0.5 / x + second) / x


@cache
def _near() -> tuple[Array, Array]:
    """Return digamma and trigamma at half of 0 to _FAR, not a number at 0, by their recurrences."""
    first, second = (np.full(_FAR + 2, math.nan) for _ in range(2))
    first[_FAR:], second[_FAR:] = _series(np.array([_FAR, _FAR + 1]) / 2)
    for k in range(_FAR - 1, 0, -1):
        first[k], second[k] = first[k + 2] - 2 / k, second[k + 2] + (2 / k) ** 2
    return first, second

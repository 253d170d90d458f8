"""Moments of ln z from the Laplace transform of z, for a positive random number z with a mean of about 1."""

import math
from typing import NamedTuple

import numpy as np

from gradwalk.activations import Array

_SPACING = 0.5  # of the trapezoidal rule in ln t, which converges geometrically
_LOWEST = -8.0


class Times(NamedTuple):
    """Where transforms are evaluated: t, and the weights of an integral over ln t."""

    t: Array
    weight: Array


class LogMoments(NamedTuple):
    """Mean, variance and third central moment of ln z."""

    mean: float
    variance: float
    third: float


def times(width: int) -> Times:
    """Return the times for the mean of this many independent terms; for fewer terms its transform falls more slowly."""
    t = np.exp(np.arange(_LOWEST, 6.0 + 60.0 / width, _SPACING))
    weight = np.full(len(t), _SPACING)
    weight[0] /= 1 - math.exp(-_SPACING)  # with all times before the first, for integrands that grow like t there
    return Times(t, weight)


def log_moments(transform: Array, at: Times) -> LogMoments:
    """Return the moments of ln z from E[exp(-t z)].

    With I_k the integral of u^k (exp(-t) - E[exp(-t z)]) over u = ln t, expanding E[z^-s] in s gives
    <ln z> = I_0, <(ln z)^2> = -2 (I_1 + gamma I_0) and <(ln z)^3> = 3 I_2 + 6 gamma I_1 + (3 gamma^2 - pi^2 / 2) I_0.
    """
    gap, u = np.exp(-at.t) - transform, np.log(at.t)
    zeroth, first, second = (float((at.weight * u**k) @ gap) for k in range(3))
    gamma = float(np.euler_gamma)
    square = -2 * (first + gamma * zeroth)
    cube = 3 * second + 6 * gamma * first + (3 * gamma**2 - math.pi**2 / 2) * zeroth
    return LogMoments(zeroth, square - zeroth**2, cube - 3 * zeroth * square + 2 * zeroth**3)

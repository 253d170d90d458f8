"""The law of the overlap between the gradient and the signal at a layer, by its weights on a few nodes.

The overlap is o = x . delta / |delta|, where x are the pre-activations of a layer divided by their standard deviation.
It is all that the backward pass knows of the forward pass: W^T delta is h o / |h| plus an independent random vector.
The law of o is even. It is represented by weights on nodes of o^2 that give the even moments up to some order.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from gradwalk.activations import Array
from gradwalk.checks import Weights

NODES = 5
ORDERS = np.arange(NODES)
_UNIT = 20.0  # moments are those of o^2 / _UNIT, for the sake of the condition of the matrices below


@dataclass(frozen=True, eq=False)
class Nodes:
    """The nodes of o^2, the weights on them of an overlap with an independent gradient, and weights from moments.

    `given` is the overlap that a Gaussian matrix would need for the same share of the signal in W^T delta: o^2 itself,
    or o^2 (N - 3) / (N - o^2) for a Haar matrix, whose W^T delta has a given length.
    """

    squares: Array
    given: Array
    fresh: Array
    from_moments: Array


@lru_cache(maxsize=64)
def nodes(weights: Weights, width: int) -> Nodes:
    """Return the nodes of Gauss quadrature for the fresh overlap: standard normal, or a component on a sphere."""
    k = np.arange(1.0, 2 * NODES)
    sphere = k * (k + width - 3) * width / ((2 * k + width - 2) * (2 * k + width - 4))
    root = np.sqrt(k if weights == "gaussian" else sphere)  # of the recurrence of the orthogonal polynomials
    points, vectors = np.linalg.eigh(np.diag(root, 1) + np.diag(root, -1))
    squares = points[NODES:] ** 2
    given = squares if weights == "gaussian" else squares * (width - 3) / (width - squares)
    return Nodes(
        squares, given, 2 * vectors[0, NODES:] ** 2, np.linalg.inv(np.vander(squares / _UNIT, increasing=True).T)
    )


class Conditional(NamedTuple):
    """The overlap given each node of the overlap above: its squared mean (either sign), variance and fourth moment.

    `fresh` are its second and fourth moments for a fresh overlap above.
    """

    mean2: Array
    variance: Array
    fourth: Array
    fresh: tuple[float, float]


_POINTS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(2 * NODES)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_NORMAL = np.cumprod([1.0, *range(1, 2 * NODES - 2, 2)])  # (2 k - 1)!!, the moments of a standard normal number


def moments(given: Conditional, fresh: Array) -> Array:
    """Return E[(o^2)^k], up to a unit, for each node of the overlap above and each k.

    o is taken as normal, times a random factor that gives it its fourth moment. For a fresh overlap above, all moments
    are set to those of a normal number with a random factor, which is exact for relu.
    """
    mean2, variance, fourth, (fresh2, fresh4) = given
    square = (np.sqrt(mean2)[:, None] + np.sqrt(variance)[:, None] * _POINTS) ** 2 / _UNIT
    values = np.empty((len(square), NODES))
    power = np.ones_like(square)
    for k in range(NODES):
        values[:, k] = power @ _WEIGHTS
        power *= square
    values *= _factor(fourth, mean2**2 + 6 * mean2 * variance + 3 * variance**2)
    wanted = _NORMAL * (fresh2 / _UNIT) ** ORDERS * _factor(np.array([fresh4]), np.array([3 * fresh2**2]))[0]
    return np.asarray(values * (wanted / (fresh @ values)))


def _factor(fourth: Array, normal: Array) -> Array:
    """Return the factors on the moments of o^2 due to a random factor on o^2 of mean 1 and small variance."""
    excess = 0.5 * np.minimum(fourth / np.maximum(normal, 1e-300) - 1, 1.0)[..., None] * ORDERS * (ORDERS - 1)
    return np.where(excess > 0, 1 + excess, 1 / (1 + np.abs(excess)))  # positive, whatever the arguments


def sphere_factors(width: int) -> Array:
    """Return by how much the moments of o^2 are smaller if x has length sqrt(width) than if it is standard normal."""
    half = width / 2
    return np.asarray(
        np.exp(scipy.special.gammaln(half) + ORDERS * math.log(half) - scipy.special.gammaln(half + ORDERS))
    )

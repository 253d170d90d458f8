"""Expectations over a Gaussian pre-activation, by piecewise Gauss-Legendre quadrature."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from gradwalk.activations import Activation, Array, Indices

_REACH = 12.0  # standard deviations; the tail beyond weighs 4e-33
_ORDER = 16
_NEAR = 8.0  # standard deviations, where an accuracy of 1e-7 is enough,
_FEW = np.polynomial.legendre.leggauss(10)  # and the nodes of a panel there
_LARGEST_Q = 1e8  # beyond it, panels would be narrower than double precision resolves


class Nodes(NamedTuple):
    """Quadrature nodes for a ~ N(0, q): E[F(a)] is `weight @ F(a)`; `panel` is the number of each node's panel."""

    a: Array
    weight: Array
    panel: Indices


@lru_cache(maxsize=64)
def nodes(activation: Activation, q: float, finest: float = 1.0) -> Nodes:
    """Return nodes for expectations of smooth functions of f(a) and f'(a), accurate to about 1e-12.

    Panels are uniform in a / sqrt(q), short enough for functions that oscillate, and graded in a itself, on whose scale
    f may bend sharply; every kink is the edge of a panel. Functions that peak where f' crosses 0, as those of the step
    do, need panels graded down to the width `finest` there.
    """
    if q > _LARGEST_Q:
        raise ValueError(f"quadrature: the pre-activation variance must be at most {_LARGEST_Q:g}, got q={q:g}")
    sd = math.sqrt(q)
    uniform = np.linspace(-_REACH, _REACH, 2 * max(12, math.ceil(min(sd, 100.0) * _REACH / 2)) + 1)
    graded = np.geomspace(2.0**-10, 2.0**10, 41) / sd
    edges = _merged(uniform, graded, -graded, np.zeros(1), np.array(activation.kinks) / sd)
    if finest < 1.0:
        distance = np.geomspace(finest, 1.0, 1 + math.ceil(-math.log2(finest)))
        around = [zero + np.concatenate([-distance, [0.0], distance]) for zero in _zeros(activation, sd * edges)]
        edges = _merged(edges, *(points / sd for points in around))
    points, weights = np.polynomial.legendre.leggauss(_ORDER)
    half = np.diff(edges)[:, None] / 2
    x = edges[:-1, None] + half * (points + 1)
    density = np.exp(-0.5 * x**2) / math.sqrt(2 * math.pi)
    panel = np.broadcast_to(np.arange(len(half))[:, None], x.shape)
    return Nodes(sd * x.ravel(), (half * weights * density).ravel(), panel.ravel())


def few_nodes(activation: Activation, q: float) -> tuple[Array, Array]:
    """Return standard normal x and weights for expectations of smooth functions of f and f' at sqrt(q) x, to 1e-7."""
    sd = math.sqrt(q)
    uniform = np.linspace(-_NEAR, _NEAR, 2 * max(6, math.ceil(min(sd, 100.0) * _NEAR / 6)) + 1)
    graded = 4.0 ** np.arange(-5, 5) / sd
    edges = _merged(uniform, graded, -graded, np.zeros(1), np.array(activation.kinks) / sd, reach=_NEAR)
    half = np.diff(edges)[:, None] / 2
    x = edges[:-1, None] + half * (_FEW[0] + 1)
    weight = half * _FEW[1] * np.exp(-0.5 * x**2)
    return x.ravel(), weight.ravel() / float(weight.sum())


def flat_share(activation: Activation, q: float) -> float:
    """Return P(f'(a) = 0): the weight of the panels on which the derivative vanishes throughout.

    A derivative that underflows double precision counts as 0.
    """
    a, weight, panel = nodes(activation, q)
    alive = np.zeros(panel[-1] + 1, dtype=bool)
    np.logical_or.at(alive, panel, np.asarray(activation.derivative(a)) != 0)
    return float(weight[~alive[panel]].sum())


def _merged(*parts: Array, reach: float = _REACH) -> Array:
    edges = np.sort(np.concatenate(parts))
    edges = edges[np.abs(edges) <= reach]
    return np.asarray(edges[np.concatenate([[True], np.diff(edges) > 1e-15])])


def _zeros(activation: Activation, a: Array) -> list[float]:
    """Return where f' crosses 0 strictly between neighbouring points of `a`, which include the kinks."""

    def slope(at: float) -> float:
        return float(np.asarray(activation.derivative(np.array([at])))[0])

    low, high = a[:-1] + 1e-9 * np.diff(a), a[1:] - 1e-9 * np.diff(a)
    turns = np.asarray(activation.derivative(low)) * np.asarray(activation.derivative(high)) < 0
    return [float(scipy.optimize.brentq(slope, low[k], high[k], xtol=1e-15)) for k in np.flatnonzero(turns)]

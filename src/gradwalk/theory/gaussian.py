"""Averages over a Gaussian pre-activation, by piecewise Gauss-Legendre quadrature."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gradwalk.activations import Activation, Array, Indices

_REACH = 12.0  # standard deviations; the tail beyond weighs 4e-33
_ORDER = 24
_SHARPEST = 1e8  # q past this would need panels thinner than single nodes resolve; f is homogeneous long before


class Nodes(NamedTuple):
    """Quadrature nodes for a ~ N(0, q): the average of F is `weight @ F(a)`; `panel` says where each belongs."""

    a: Array
    weight: Array
    panel: Indices


@lru_cache(maxsize=64)
def nodes(activation: Activation, q: float) -> Nodes:
    """Return nodes at which averages of smooth functions of f(a) and f'(a) come out to about 1e-13.

    Panels are uniform in a / sqrt(q) and, where f may bend sharply on that scale, graded in a itself;
    an edge stands at every kink. Functions that oscillate, such as sin, get panels shorter than a half-wave.
    """
    sd = math.sqrt(q)
    if q > _SHARPEST:
        raise ValueError(f"quadrature: the pre-activation variance must be at most {_SHARPEST:g}, got q={q:g}")
    uniform = np.linspace(-_REACH, _REACH, 2 * max(12, math.ceil(min(sd, 100.0) * _REACH / 2)) + 1)
    graded = np.geomspace(2.0**-10, 2.0**10, 41) / sd
    bends = np.concatenate([graded, -graded, [0.0], np.array(activation.kinks) / sd])
    edges = np.unique(np.concatenate([uniform, bends[np.abs(bends) < _REACH]]))
    edges = edges[np.concatenate([[True], np.diff(edges) > 1e-15])]
    points, weights = np.polynomial.legendre.leggauss(_ORDER)
    half = np.diff(edges)[:, None] / 2
    x = edges[:-1, None] + half * (points + 1)
    density = np.exp(-0.5 * x**2) / math.sqrt(2 * math.pi)
    panel = np.broadcast_to(np.arange(len(half))[:, None], x.shape)
    return Nodes(sd * x.ravel(), (half * weights * density).ravel(), panel.ravel())


def flat_share(activation: Activation, q: float) -> float:
    """Return P(f'(a) = 0): the weight of the panels on which the derivative vanishes throughout."""
    a, weight, panel = nodes(activation, q)
    alive = np.zeros(panel[-1] + 1, dtype=bool)
    np.logical_or.at(alive, panel, np.asarray(activation.derivative(a)) != 0)
    return float(weight[~alive[panel]].sum())

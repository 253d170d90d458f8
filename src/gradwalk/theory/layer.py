"""One layer of given width as a function of the variance q of its pre-activations, to second order in 1 / width.

Forward, q' = g^2 mean(h^2), with h = f(sqrt(q) x) and x standard normal, so that ln q is a Markov chain. Backward,
|delta|^2 is multiplied by g^2 z, where z is the mean of s^2 v^2 with s = f'(sqrt(q) x) and
    v = xi + h (o - h . xi / |h|) / |h|,   xi standard normal, o the overlap with the signal (see `overlap`).
For given x and o, v is normal, and averages over v follow from
    E[exp(-t s^2 . v^2)] = product of m^(1/2) * (1 - B)^(-1/2) exp(-o^2 B / (2 (1 - B))),
with m = 1 / (1 + 2 t s^2) and B = sum of h^2 (1 - m) / |h|^2. What remains are averages over x of products over the
units, which are powers of averages over one unit, and of ratios of sums, which are expanded to second order.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gradwalk.activations import Activation, Array
from gradwalk.checks import Weights
from gradwalk.theory import overlap
from gradwalk.theory.gaussian import few_nodes
from gradwalk.theory.transforms import LogMoments, Times, log_moments, times

_TAIL = 1e-3  # the weight of layers through which nothing passes, above which the expansion is of no use


class Response(NamedTuple):
    """How much a quantity depends on the overlap above, and that dependence times ln q' less its mean.

    The overlap above depends on q', and so do the sums over x that it multiplies.
    """

    total: float
    lagged: float


class LayerRow(NamedTuple):
    """What a layer does at one variance of its pre-activations, at gain 1.

    Attributes:
        forward: moments of ln q'.
        step: moments of ln z for an overlap that is standard normal.
        covariance: of ln z and ln q'.
        growth: what <ln z> differs by from that of the step, for each node of the overlap above.
        moments: of the overlap at this layer, for each node of the overlap above.
        growth_response, overlap_response: of these two, to the square of the overlap above.
    """

    forward: LogMoments
    step: LogMoments
    covariance: float
    growth: Array
    moments: Array
    growth_response: Response
    overlap_response: Response


class Unit(NamedTuple):
    """One unit on quadrature nodes: x, h and s, the latter two divided by their root mean squares."""

    weight: Array
    x: Array
    h: Array
    s: Array
    log_h2: float
    log_s2: float


class Tilted(NamedTuple):
    """Averages over the units at each time t, with weights m^(1/2): see the formulas at the top.

    Attributes:
        power: E[exp(-t z)] at a standard normal overlap.
        b: B.
        direct, scatter: mean and variance of x^2 s^2 m over the units.
        ratio: (sum of x s h m)^2 / (N |h|^2), the part of it along h.
        growth_lag, ratio_lag: ln q' less its mean, averaged with B or with the ratio as a weight.
    """

    power: Array
    b: Array
    direct: Array
    scatter: Array
    ratio: Array
    growth_lag: Array
    ratio_lag: Array


@lru_cache(maxsize=4096)
def layer_row(activation: Activation, width: int, dropout: float, weights: Weights, log_q: float) -> LayerRow | None:
    """Return what a layer does at q = exp(log_q), or None where it passes too little for the expansion.

    x is standard normal, whatever the weights, which matter for the nodes of the overlap.
    """
    with np.errstate(all="ignore"):  # what is not finite is recognised below
        unit, at = _unit(activation, math.exp(log_q), dropout), times(width)
        forward = log_moments((np.exp(-at.t[:, None] * (unit.h**2 / width)) @ unit.weight) ** width, at)
        tilted = _tilted(unit, width, at)
        row = _row(unit, width, at, tilted, forward, overlap.nodes(weights, width))
    finite = np.isfinite(row.growth).all() and np.isfinite(row.moments).all() and math.isfinite(row.forward.third)
    return row if finite and tilted.power[-1] < _TAIL else None


def _unit(activation: Activation, q: float, dropout: float) -> Unit:
    x, weight = few_nodes(activation, q)
    h, s = (np.asarray(function(math.sqrt(q) * x), np.float64) for function in (activation.f, activation.derivative))
    if dropout:
        x, h, s = (np.append(values, 0.0) for values in (x, h / (1 - dropout), s / (1 - dropout)))
        weight = np.append((1 - dropout) * weight, dropout)
    h2, s2 = float(weight @ h**2), float(weight @ s**2)
    return Unit(weight, x, h / math.sqrt(h2), s / math.sqrt(s2), math.log(h2), math.log(s2))


def _tilted(unit: Unit, width: int, at: Times) -> Tilted:
    weight, x, h, s = unit.weight, unit.x, unit.h, unit.s
    m = 1 / (1 + 2 * at.t[:, None] * (s**2 / width))
    once = np.sqrt(m) * weight
    twice = once * m
    h2, along = h**2, x * s * h
    total, square, fourth = (once @ np.stack([np.ones_like(h), h2, h2**2], axis=1)).T
    sums = (twice @ np.stack([h2, h2**2, (x * s) ** 2, along, along * h2], axis=1)).T
    square_m, fourth_m, direct, mean_along, along_square = sums / total
    along2, direct2 = ((twice * m) @ np.stack([along**2, (x * s) ** 4], axis=1)).T / total
    square, fourth = square / total, fourth / total
    lost = square - square_m
    spread = (fourth - fourth_m) / (lost * square) - fourth / square**2
    mixed = along_square / (mean_along * square)
    ratio = mean_along**2 / square * (1 + (along2 / mean_along**2 - 2 * mixed + fourth / square**2) / width)
    return Tilted(
        power=total**width,
        b=np.clip(lost / square * (1 - spread / width), 0.0, 0.999),
        direct=direct,
        scatter=direct2 - direct**2,
        ratio=ratio,
        growth_lag=np.log(square) + spread / width,
        ratio_lag=np.log(square) + (2 * (mixed - 1) - (fourth / square**2 - 1)) / width,
    )


def _row(unit: Unit, width: int, at: Times, tilted: Tilted, forward: LogMoments, nodes: overlap.Nodes) -> LayerRow:
    power, b, direct, _, ratio, growth_lag, ratio_lag = tilted
    first, step = at.weight * at.t * power, log_moments(power, at)
    given = np.exp(-0.5 * np.outer(b / (1 - b), nodes.given)) / np.sqrt(1 - b)[:, None]
    rest, aligned = direct - ratio / (1 - b), ratio / (1 - b) ** 2
    conditional = overlap.Conditional(
        mean2=nodes.given * ((first * aligned) @ given),
        variance=np.maximum((first * rest) @ given, 0.0),
        fourth=_fourth(unit, width, first * at.t, rest, aligned, given, nodes.given),
        fresh=(float(first @ direct), 3 * float((first * at.t) @ (direct**2 + tilted.scatter / width))),
    )
    own, lost = first * ratio, 0.5 * first * b * direct
    return LayerRow(
        forward=forward._replace(mean=forward.mean + unit.log_h2),
        step=step._replace(mean=step.mean + unit.log_s2),
        covariance=float(unit.weight @ (unit.s**2 * unit.h**2) - 1) / width,
        growth=(at.weight * power) @ (1 - given),
        moments=overlap.moments(conditional, nodes.fresh),
        growth_response=Response(float((at.weight * power) @ b), float((at.weight * power) @ (b * growth_lag))),
        overlap_response=Response(float((own - lost).sum()), float(own @ ratio_lag - lost @ growth_lag)),
    )


def _fourth(unit: Unit, width: int, weight: Array, rest: Array, aligned: Array, given: Array, squares: Array) -> Array:
    """Return the fourth moment of the overlap for each node of the overlap above."""
    direct, along, h2 = (unit.x * unit.s) ** 2, unit.x * unit.s * unit.h, unit.h**2
    mean = float(unit.weight @ along)
    aligned_part = 2 * mean * along - mean**2 * h2
    parts = np.stack([direct - aligned_part, aligned_part])
    parts = parts - (parts @ unit.weight)[:, None]
    covariance = (parts * unit.weight) @ parts.T / width
    means = 3 * ((weight * rest**2) @ given) + 6 * squares * ((weight * rest * aligned) @ given)
    means += squares**2 * ((weight * aligned**2) @ given)
    scatter = 3 * covariance[0, 0] + 6 * squares * covariance[0, 1] + squares**2 * covariance[1, 1]
    return np.asarray(means + scatter * (weight @ given))

"""The gain of a weight layer from what it reads."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gradwalk.activations import Activation
from gradwalk.checks import Weights
from gradwalk.gains import GainEstimate, layer_gain
from gradwalk.progress import progress
from gradwalk.theory import chi, q_map

_SAMPLED = 4  # widths of one family whose gains are sampled


class Law(NamedTuple):
    """What the gain of a layer depends on; steps: the number of layers that its section of the walk goes over."""

    activation: Activation
    fan_in: int
    steps: int
    weights: Weights
    dropout: float


def unbiased(law: Law) -> GainEstimate:
    """Return the gain at which the walk over this many layers of this kind is unbiased, see `layer_gain`."""
    return layer_gain(law.activation, law.fan_in, law.steps, law.weights, law.dropout)


def unbiased_gains(laws: Iterable[Law]) -> dict[Law, GainEstimate]:
    """Return the gains of many laws; of those that differ in the fan-in alone, some are sampled and the others fitted.

    At a given depth ln g is a smooth function of 1 / fan_in: from five widths on a parabola through four of them, each
    sampled, is within the standard errors of the others. Nothing is fitted where nothing has to be sampled.
    """
    estimates: dict[Law, GainEstimate] = {}
    families: dict[Law, list[Law]] = {}
    for law in dict.fromkeys(laws):
        families.setdefault(law._replace(fan_in=0), []).append(law)
    for family in families.values():
        ordered = sorted(family, key=lambda law: law.fan_in)
        if len(family) <= _SAMPLED or unbiased(ordered[len(family) // 2]).walks == 0:
            estimates |= {law: unbiased(law) for law in family}
        else:
            estimates |= _fitted(ordered)
    return estimates


def _fitted(family: Sequence[Law]) -> dict[Law, GainEstimate]:
    """Return the gains of laws in the order of their fan-ins, by a parabola in 1 / fan_in."""
    inverse = np.array([1 / law.fan_in for law in family])
    wanted = np.linspace(inverse[-1], inverse[0], _SAMPLED)
    places = sorted({int(np.abs(inverse - each).argmin()) for each in wanted})
    with progress("gains", total=len(places)) as job:
        solved = []
        for place in places:
            solved.append(_solved(family[place]))
            job.advance()
    fit = np.polynomial.Polynomial.fit(
        inverse[places], np.log([each.value for each in solved]), min(2, len(places) - 1), domain=[0, inverse[0]]
    )
    error, spread = max(each.standard_error for each in solved), max(each.spread for each in solved)
    values = dict(zip(family, np.exp(fit(inverse)).tolist(), strict=True))
    return {law: replace(solved[0], value=value, standard_error=error, spread=spread) for law, value in values.items()}


def _solved(law: Law) -> GainEstimate:
    """Return the gain of a law by half the usual number of walks: the fit averages over several."""
    walks = max(100, min(1000, round(5e6 / (law.fan_in * (law.steps + 1)))))
    return layer_gain(law.activation, law.fan_in, law.steps, law.weights, law.dropout, walks)


def gate_gain(activation: Activation) -> float:
    """Return the gain of a layer that reads f(a) b, where a and b are independent and of unit variance.

    Back from it, delta reaches a multiplied by f'(a) b and b multiplied by f(a), so that |delta|^2 is multiplied by
    g^2 (E[f'^2] + E[f^2]) in all.

    >>> from gradwalk.activations import activation
    >>> round(gate_gain(activation("linear")), 4)
    0.7071
    """
    return 1 / math.sqrt(chi(activation, 1.0) + q_map(activation, 1.0))

"""The gain of a weight layer from what it reads."""

import math
from typing import NamedTuple

from gradwalk.activations import Activation
from gradwalk.checks import Weights
from gradwalk.gains import GainEstimate, solve_gain
from gradwalk.theory import chi, q_map


class Law(NamedTuple):
    """What the gain of a layer depends on; steps: the number of layers that its section of the walk goes over."""

    activation: Activation
    fan_in: int
    steps: int
    weights: Weights
    dropout: float


def unbiased(law: Law) -> GainEstimate:
    """Return the gain at which the walk over this many layers of this kind is unbiased."""
    return solve_gain(law.activation, law.fan_in, law.steps, weights=law.weights, dropout=law.dropout)


def gate_gain(activation: Activation) -> float:
    """Return the gain of a layer that reads f(a) b, where a and b are independent and of unit variance.

    Back from it, delta reaches a multiplied by f'(a) b and b multiplied by f(a), so that |delta|^2 is multiplied by
    g^2 (E[f'^2] + E[f^2]) in all.

    >>> from gradwalk.activations import activation
    >>> round(gate_gain(activation("linear")), 4)
    0.7071
    """
    return 1 / math.sqrt(chi(activation, 1.0) + q_map(activation, 1.0))

"""The walk that theory predicts over many layers."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from gradwalk.activations import Activation, Array
from gradwalk.checks import Weights
from gradwalk.theory.steps import step


class Band(NamedTuple):
    """Mean and standard deviation of the log-norm over networks at layers D, D - 1, ..., 0."""

    mean: Array
    deviation: Array


def predicted_walk(
    activation: str | Activation, widths: Sequence[int], gains: Sequence[float] | Array, weights: Weights = "gaussian"
) -> Band:
    """Return mean and standard deviation of ln(|delta_d| / |delta_D|) from layer D down to 0, for a neutral activation.

    The mean changes by ln g + <ln z> / 2 per layer, and the variance grows by a quarter of that of ln z. Exact.
    `widths` are the D + 1 widths, input first, and `gains` the D gains, layer 1 first.

    >>> predicted_walk("linear", [50, 50, 50], [1.0, 1.0]).mean
    array([ 0.        , -0.01006..., -0.02013...])
    """
    layers = list(pairwise(widths))
    steps = {(n, out): step(activation, n, weights=weights, width_out=out) for n, out in set(layers)}
    back = [steps[pair] for pair in reversed(layers)]
    moves = [math.log(g) + s.drift / 2 for g, s in zip(reversed(gains), back, strict=True)]
    mean = np.cumsum([0.0, *moves])
    return Band(mean, np.sqrt(np.cumsum([0.0, *(s.variance / 4 for s in back)])))

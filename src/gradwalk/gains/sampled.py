"""The unbiased gain by sampling: the root of the mean log-norm over walks of the exact sampler.

The same random numbers at every trial gain make the mean log-norm a continuous function of the gain.
"""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from gradwalk.activations import Array
from gradwalk.blocks import Block, Dense, scaled, weight_layers
from gradwalk.checks import Weights
from gradwalk.gains.estimate import GainEstimate
from gradwalk.gains.expansion import Expanded
from gradwalk.simulation import Walks, simulate
from gradwalk.theory import Kind, chi

_NEAR = 0.01  # the error of ln g by the expansion up to which the root is looked for next to it
_ROUGH, _FEWEST = 20, 20  # the part of the walks that have the root first, and their least number
_STEP, _REACH = 0.05, 4.0  # how far from the start the root is looked for first, and at last
_APART = 6.0  # errors of their difference between two means that have a slope
_TRIALS = 12


@lru_cache(maxsize=1024)
def sampled_gain(
    network: Block,
    layers: tuple[int, ...],
    weights: Weights,
    count: int,
    seed: int,
    kind: Kind,
    start: Expanded | None = None,
) -> GainEstimate:
    """Return the root of the mean log-norm: where a part of the walks has it first, then that of all of them.

    `start` is what the expansion gives, if anything: where that is near, the root is looked for there.
    """
    parts = list(weight_layers(network))
    depth = (len(layers) - 1) * len(parts)

    def mean(walks: int, log_gain: float) -> _Mean:
        block = scaled(network, math.exp(log_gain))
        found = simulate(block, layers, walks=walks, rng=seed, weights=weights, every=depth)
        values = controlled(found)
        return _Mean(log_gain, *mean_and_error(values), values, found.spread)

    if start is not None and start.error / start.slope < _NEAR:
        at, step = start.log_gain, max(2 * start.error / start.slope, 0.2 / depth)
    else:
        at, step = float(np.mean([_limit(layer) for layer in parts])), _STEP
    for walks in dict.fromkeys((min(max(count // _ROUGH, _FEWEST), count), count)):
        enclosed = _enclosed(partial(mean, walks), at, step)
        if enclosed is None:
            raise ValueError(_no_gain(network, at))
        root, slope = _root(partial(mean, walks), *enclosed)
        at, step = root.log_gain - root.value / slope, 2 * root.error / slope
    value = math.exp(at)
    return GainEstimate(value, value * root.error / slope, root.spread, kind, count, "walks")


def _limit(layer: Dense) -> float:
    """Return ln of the factor on a layer's gain at which |delta|^2 keeps its size in the limit of infinite width."""
    return -0.5 * math.log(chi(layer.activation, 1.0, layer.gain) / (1 - layer.dropout))


def controlled(walks: Walks) -> Array:
    """Return the final log-norms less what their control variates, `luck`, explain: their mean is that of the walks."""
    if walks.resampled:  # resampling selects layers, after which the control variates no longer have mean 0
        return walks.final
    centred = walks.luck - walks.luck.mean(axis=0)
    return np.asarray(walks.final - walks.luck @ np.linalg.lstsq(centred, walks.final - walks.mean)[0])


def mean_and_error(values: Array) -> tuple[float, float]:
    """Return the mean and its standard error."""
    return float(values.mean()), float(values.std(ddof=3)) / math.sqrt(len(values))


class _Mean(NamedTuple):
    """The mean final log-norm at a gain and its error, the controlled log-norms and the spread of the walks."""

    log_gain: float
    value: float
    error: float
    values: Array
    spread: float


def _enclosed(mean: Callable[[float], _Mean], start: float, step: float) -> tuple[_Mean, _Mean] | None:
    """Return means of both signs whose difference is not noise, searching outwards from `start`, or None."""
    known = [mean(start)]
    while abs(known[-1].log_gain - start) < _REACH:
        known.append(mean(known[-1].log_gain - math.copysign(step, known[-1].value)))
        low, high = (min(known, key=lambda each: sign * each.value) for sign in (1, -1))
        if low.value < 0 < high.value and _slope(low, high) > 0:
            return low, high
        step *= 2
    return None


def _root(mean: Callable[[float], _Mean], low: _Mean, high: _Mean) -> tuple[_Mean, float]:
    """Return a mean that is 0 but for noise, and the slope of the mean, by the method of false position.

    In deep networks of gelu and the like, the mean jumps from one regime to another over a short distance, where single
    walks differ most. So the slope is that between the nearest means on either side that noise does not blur.
    """
    slope = _slope(low, high)
    for _ in range(_TRIALS):
        one = mean(low.log_gain - low.value * (high.log_gain - low.log_gain) / (high.value - low.value))
        slope = max(slope, _slope(low, one), _slope(one, high))
        if abs(one.value) < one.error:
            break
        low, high = (one, high) if one.value < 0 else (low, one)
    return one, slope


def _slope(low: _Mean, high: _Mean) -> float:
    """Return the slope between two means, 0 where noise may decide it."""
    difference, error = mean_and_error(high.values - low.values)
    return difference / (high.log_gain - low.log_gain) if difference > _APART * error else 0.0


def _no_gain(network: Block, start: float) -> str:
    low, high = math.exp(start - _REACH), math.exp(start + _REACH)
    name = network.activation if isinstance(network, Dense) else network
    return (
        f"solve_gain: no gain between {low:.3g} and {high:.3g} makes the walk of {name} unbiased; try wider layers or "
        "a smaller depth"
    )

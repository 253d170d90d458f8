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
_STEP, _WIDEST, _REACH = 0.05, 0.5, 4.0  # how far from the start the root is looked for: first, at most, and at last
_APART = 6.0  # errors of their difference between two means that have a slope
_ASIDE, _CLOSE = 2.0, 3.0  # errors from 0 of the means to either side of the root: those looked for, and at most
_EDGE = 0.05  # of the distance between two means, the least to the next one
_SHRUNK, _TRIALS = 0.6, 20  # by how much that distance shrinks each time, by bisection where it does not by itself
_ROUNDING = 1e-7  # the least error of a mean: some walks do not differ


class NoGainError(ValueError):
    """No gain makes the walk unbiased."""


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
        value, error = mean_and_error(values)
        return _Mean(log_gain, value, max(error, _ROUNDING), values, found.spread)

    at, slope = float(np.mean([_limit(layer) for layer in parts])), 0.0
    if start is not None and start.log_error < _NEAR:
        at, slope = start.log_gain, start.slope
    for walks in dict.fromkeys((min(max(count // _ROUGH, _FEWEST), count), count)):
        root = _root(partial(mean, walks), at, slope)
        if root is not None:  # a part of the walks may miss one that all of them have
            at, slope = root.log_gain, root.slope
    if root is None:
        raise NoGainError(_no_gain(network, at))
    value, error, spread = math.exp(at), root.error, root.spread
    return GainEstimate(value, value * error, spread, kind, count, "walks")


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


class _Root(NamedTuple):
    """Where the mean is 0 and the error of that, the slope of the mean, and the spread of the walks."""

    log_gain: float
    error: float
    slope: float
    spread: float


def _root(mean: Callable[[float], _Mean], start: float, slope: float) -> _Root | None:
    """Return the root of the mean next to `start`, or None; a slope of 0 is unknown."""
    known = _enclosing(mean, start, slope)
    if known is None:
        return None
    settled = _narrowed(mean, known)
    low, high = _nearest(known)
    shares = np.array([high.value, -low.value]) / (high.value - low.value)
    at, error, spread = (float(shares @ (one, other)) for one, other in zip(_summary(low), _summary(high), strict=True))
    slope = _local_slope(known)
    left = 0.0 if settled else (high.log_gain - low.log_gain) / 2
    return _Root(at, max(error / slope, left, _flat(known, at)), slope, spread)


def _summary(mean: _Mean) -> tuple[float, float, float]:
    return mean.log_gain, mean.error, mean.spread


def _enclosing(mean: Callable[[float], _Mean], start: float, slope: float) -> list[_Mean] | None:
    """Return means of which some of either sign differ by more than noise, searching outwards from `start`, or None."""
    known = [mean(start)]
    step = min((abs(known[0].value) + _ASIDE * known[0].error) / slope, _WIDEST) if slope else _STEP
    while abs(known[-1].log_gain - start) < _REACH:
        known.append(mean(known[-1].log_gain - math.copysign(step, known[-1].value)))
        if _local_slope(known):
            return known
        step *= 2
    return None


def _narrowed(mean: Callable[[float], _Mean], known: list[_Mean]) -> bool:
    """Add means until the nearest on either side are 0 but for a few errors; return whether they are.

    In deep networks of gelu and the like, the mean jumps from one regime to another over a short distance, where single
    walks differ most. What the nearest two enclose is not narrowed further where their difference may be noise.
    """
    before = math.inf
    for _ in range(_TRIALS):
        low, high = _nearest(known)
        if all(abs(each.value) < _CLOSE * each.error for each in (low, high)):
            return True
        if not _slope(low, high):
            return False
        quick = _width((low, high)) < _SHRUNK * before
        known.append(mean(_between(low, high) if quick else (low.log_gain + high.log_gain) / 2))
        before = _width((low, high))
    return False


def _between(low: _Mean, high: _Mean) -> float:
    """Return about where the mean is a few errors from 0, on the side of that which is further from it."""
    aside = math.copysign(_ASIDE, low.value + high.value) * min(low.error, high.error)
    share = (aside - low.value) / (high.value - low.value)
    return low.log_gain + min(max(share, _EDGE), 1 - _EDGE) * (high.log_gain - low.log_gain)


def _nearest(known: list[_Mean]) -> tuple[_Mean, _Mean]:
    """Return the nearest two means between which the sign changes upwards."""
    return min(_pairs(known), key=_width)


def _local_slope(known: list[_Mean]) -> float:
    """Return the slope between the nearest two means around the root that noise does not blur, 0 where there are none.

    Between more distant ones the mean may be steeper than at its root, and the error of that would be too small.
    """
    apart = [pair for pair in _pairs(known) if _slope(*pair)]
    return _slope(*min(apart, key=_width)) if apart else 0.0


def _pairs(known: list[_Mean]) -> list[tuple[_Mean, _Mean]]:
    """Return the pairs between which the sign changes upwards."""
    lower, upper = [one for one in known if one.value <= 0], [one for one in known if one.value > 0]
    return [(low, high) for low in lower for high in upper if low.log_gain < high.log_gain]


def _width(pair: tuple[_Mean, _Mean]) -> float:
    return pair[1].log_gain - pair[0].log_gain


def _slope(low: _Mean, high: _Mean) -> float:
    """Return the slope between two means, 0 where noise may decide it, or where they are nearer than their errors."""
    difference, error = mean_and_error(high.values - low.values)
    apart = difference > max(_APART * error, low.error + high.error)
    return difference / (high.log_gain - low.log_gain) if apart else 0.0


def _flat(known: list[_Mean], root: float) -> float:
    """Return how far from the root the mean may still be 0: where it is flat, or has several roots."""
    unclear = (one for one in known if math.copysign(1, one.log_gain - root) * one.value < one.error)
    return max((abs(one.log_gain - root) for one in unclear), default=0.0)


def _no_gain(network: Block, start: float) -> str:
    low, high = math.exp(start - _REACH), math.exp(start + _REACH)
    name = network.activation if isinstance(network, Dense) else network
    return (
        f"solve_gain: no gain between {low:.3g} and {high:.3g} makes the walk of {name} unbiased; try wider layers or "
        "a smaller depth"
    )

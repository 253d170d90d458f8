"""The unbiased gain by sampling: the root of the mean log-norm over walks of the exact sampler.

The same random numbers at every trial gain make the mean log-norm a smooth function of the gain.
"""

import math
from collections.abc import Callable
from functools import cache, lru_cache

import numpy as np
import scipy

from gradwalk.blocks import Block, Dense, scaled, weight_layers
from gradwalk.checks import Weights
from gradwalk.gains.estimate import GainEstimate
from gradwalk.gains.expansion import Expanded
from gradwalk.simulation import Walks, simulate
from gradwalk.theory import Kind, chi

_NEAR = 0.01  # the error of ln g by the expansion up to which Newton steps from it are used


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
    """Return the root of the mean log-norm: found with a fifth of the walks, then one Newton step with all of them.

    `start` is what the expansion gives, if anything: where that is near, two Newton steps find the root.
    """
    parts = list(weight_layers(network))
    depth = (len(layers) - 1) * len(parts)

    def sample(log_gain: float, walks: int) -> Walks:
        block = scaled(network, math.exp(log_gain))
        return simulate(block, layers, walks=walks, rng=seed, weights=weights, every=depth)

    @cache  # the ends of the bracket are asked for again by the search in it
    def rough(log_gain: float) -> float:
        return controlled_mean(sample(log_gain, max(count // 5, 8)))[0]

    if start is not None and start.error / start.slope < _NEAR:
        root, slope = start.log_gain - rough(start.log_gain) / start.slope, start.slope
    else:
        low, high = _bracket(rough, float(np.mean([_limit(layer) for layer in parts])), network)
        root = float(scipy.optimize.brentq(rough, low, high, xtol=0.02 / depth))
        slope = (rough(root + 0.2 / depth) - rough(root - 0.2 / depth)) * depth / 0.4
    walks = sample(root, count)
    mean, error = controlled_mean(walks)
    value = math.exp(root - mean / slope)
    return GainEstimate(value, value * error / abs(slope), walks.spread, kind, count, "walks")


def _limit(layer: Dense) -> float:
    """Return ln of the factor on a layer's gain at which |delta|^2 keeps its size in the limit of infinite width."""
    return -0.5 * math.log(chi(layer.activation, 1.0, layer.gain) / (1 - layer.dropout))


def controlled_mean(walks: Walks) -> tuple[float, float]:
    """Return the mean of the final log-norm and its standard error, with `luck` as control variates."""
    rest = walks.final
    if walks.resampled == 0:  # resampling selects layers, after which the control variates no longer have mean 0
        centred = walks.luck - walks.luck.mean(axis=0)
        rest = rest - walks.luck @ np.linalg.lstsq(centred, rest - rest.mean())[0]
    return float(rest.mean()), float(rest.std(ddof=3)) / math.sqrt(len(rest))


def _bracket(mean: Callable[[float], float], start: float, network: Block) -> tuple[float, float]:
    """Return two log-gains between which the mean log-norm changes its sign, searching outwards from `start`."""
    at_start, near, reach = mean(start), start, 0.05
    while reach < 4.0:
        other = start - math.copysign(reach, at_start)
        if mean(other) * at_start <= 0:
            return min(near, other), max(near, other)
        near, reach = other, 2 * reach
    low, high = sorted((math.exp(start), math.exp(near)))
    name = network.activation if isinstance(network, Dense) else network
    raise ValueError(
        f"solve_gain: no gain between {low:.3g} and {high:.3g} makes the walk of {name} unbiased; try wider layers or "
        "a smaller depth"
    )

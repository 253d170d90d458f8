"""The unbiased gain with its uncertainty: exact where theory has it, else the root of the sampled mean log-norm.

The same random numbers at every trial gain make the mean log-norm a smooth function of the gain.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy import optimize

from gradwalk import activations, checks
from gradwalk.activations import Activation
from gradwalk.blocks import Dense, dense
from gradwalk.checks import Formula, Weights
from gradwalk.simulation import Walks, simulate
from gradwalk.theory import Kind, chi, kind, step

_UNITS = 1e7  # units drawn per trial gain, where the number of walks is left open


@dataclass(frozen=True)
class GainEstimate:
    """An unbiased gain and how certain it is.

    Attributes:
        value: the gain.
        standard_error: of `value`; 0 where it is exact.
        spread: the standard deviation of the final log-norm over networks.
        kind: of the activation: "neutral", "steady" or "unsteady".
        walks: the number of walks that the estimate rests on; 0 where it is exact.
    """

    value: float
    standard_error: float
    spread: float
    kind: Kind
    walks: int


def solve_gain(
    activation: str | Activation,
    width: int | Sequence[int],
    depth: int | None = None,
    *,
    weights: Weights = "gaussian",
    walks: int | None = None,
    seed: int = 0,
    sampled: bool = False,
    dropout: float = 0.0,
) -> GainEstimate:
    """Return the gain at which <ln Z> = 0 (eq. 9), with its standard error and the spread of the final log-norm.

    Exact for neutral activations (linear, relu, leaky_relu). For the others the mean log-norm over sampled walks is
    solved for the gain, which is deterministic for a given seed. With several widths, the result is the one gain of
    all layers at which the whole walk is unbiased. Results are cached: a second call takes microseconds.

    Args:
        activation: a name such as "tanh" or "leaky_relu(0.2)", or an `Activation`.
        width: units per layer, or all depth + 1 widths, input first.
        depth: the number of weight layers; may be omitted if all widths are given.
        weights: "gaussian", or "orthogonal" for Haar orthogonal matrices.
        walks: the number of sampled walks, at least 8; by default 100 to 2000, fewer for larger networks.
        seed: of the sampled walks.
        sampled: sample neutral activations too, to check the exact gain.
        dropout: the rate of dropout between the activation and the weights of each layer.

    >>> solve_gain("relu", width=100, depth=200)
    GainEstimate(value=1.43230..., standard_error=0.0, spread=1.61152..., kind='neutral', walks=0)
    """
    f = activations.activation(activation)
    layers = checks.widths("solve_gain", width, depth)
    checks.one_of("solve_gain", "weights", weights, checks.WEIGHTS)
    number = checks.whole("solve_gain", "seed", seed, least=0, most=2**63)
    default = max(100, min(2000, int(_UNITS / sum(layers))))
    count = default if walks is None else checks.whole("solve_gain", "walks", walks, least=8)
    layer = dense(f, dropout=checks.rate("solve_gain", "dropout", dropout))
    if kind(f) == "neutral" and not sampled:
        return neutral_gain(layer, layers, weights)
    return _solve(layer, layers, weights, count, number)


@lru_cache(maxsize=1024)
def neutral_gain(layer: Dense, layers: tuple[int, ...], weights: Weights, formula: Formula = "exact") -> GainEstimate:
    """Return the one gain of all layers: g = exp(-<ln z> / 2), eq. 10, with the mean of <ln z> over the layers."""
    pairs = Counter(pairwise(layers))
    steps = {
        (n, out): step(layer.activation, n, weights=weights, formula=formula, width_out=out, dropout=layer.dropout)
        for n, out in pairs
    }
    depth = len(layers) - 1
    drift = math.fsum(count * steps[pair].drift for pair, count in pairs.items())
    variance = math.fsum(count * steps[pair].variance for pair, count in pairs.items())
    return GainEstimate(math.exp(-drift / depth / 2), 0.0, math.sqrt(variance) / 2, "neutral", 0)


@lru_cache(maxsize=1024)
def _solve(layer: Dense, layers: tuple[int, ...], weights: Weights, count: int, seed: int) -> GainEstimate:
    """Return the root of the mean log-norm: found with a fifth of the walks, then one Newton step with all of them."""
    depth, f = len(layers) - 1, layer.activation

    def sample(log_gain: float, walks: int) -> Walks:
        chain = replace(layer, gain=math.exp(log_gain))
        return simulate(chain, layers, walks=walks, rng=seed, weights=weights, every=depth)

    def rough(log_gain: float) -> float:
        return _controlled_mean(sample(log_gain, max(count // 5, 8)))[0]

    low, high = _bracket(rough, -0.5 * math.log(chi(f, 1.0) / (1 - layer.dropout)), f)
    root = float(optimize.brentq(rough, low, high, xtol=0.02 / depth))
    slope = (rough(root + 0.2 / depth) - rough(root - 0.2 / depth)) * depth / 0.4
    walks = sample(root, count)
    mean, error = _controlled_mean(walks)
    value = math.exp(root - mean / slope)
    return GainEstimate(value, value * error / abs(slope), walks.spread, kind(f), count)


def _controlled_mean(walks: Walks) -> tuple[float, float]:
    """Return the mean of the final log-norm and its standard error, with `luck` as control variates."""
    rest = walks.final
    if walks.resampled == 0:  # resampling selects layers, after which the control variates no longer have mean 0
        centred = walks.luck - walks.luck.mean(axis=0)
        rest = rest - walks.luck @ np.linalg.lstsq(centred, rest - rest.mean())[0]
    return float(rest.mean()), float(rest.std(ddof=3)) / math.sqrt(len(rest))


def _bracket(mean: Callable[[float], float], start: float, f: Activation) -> tuple[float, float]:
    """Return two log-gains between which the mean log-norm changes its sign, searching outwards from `start`."""
    at_start, near, reach = mean(start), start, 0.05
    while reach < 4.0:
        other = start - math.copysign(reach, at_start)
        if mean(other) * at_start <= 0:
            return min(near, other), max(near, other)
        near, reach = other, 2 * reach
    low, high = sorted((math.exp(start), math.exp(near)))
    raise ValueError(
        f"solve_gain: no gain between {low:.3g} and {high:.3g} makes the walk of {f} unbiased; try wider layers or a "
        "smaller depth"
    )

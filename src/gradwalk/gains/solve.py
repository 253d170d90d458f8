"""The unbiased gain with its uncertainty: exact where theory has it, else the root of the sampled mean log-norm.

The same random numbers at every trial gain make the mean log-norm a smooth function of the gain.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import scipy

from gradwalk import activations, checks
from gradwalk.activations import Activation
from gradwalk.blocks import Block, Dense, Dropout, Norm, Residual, contains, dense, output_width, scaled, weight_layers
from gradwalk.checks import Formula, Weights
from gradwalk.display import Shown, plot_expected_walk
from gradwalk.simulation import Walks, simulate
from gradwalk.theory import Kind, chi, kind, step

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_UNITS = 2e9  # units drawn per trial gain, above which the number of walks must be given
_UNITS = 1e7  # units drawn per trial gain, where the number of walks is left open


@dataclass(frozen=True)
class GainEstimate(Shown):
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

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the walks that are expected at this gain, and return the axes."""
        return plot_expected_walk(ax, 0.0, self.spread, f"{self.kind}, g = {self.value:.5g}")


def solve_gain(
    activation: str | Activation | Block,
    width: int | Sequence[int],
    depth: int | None = None,
    *,
    weights: Weights = "gaussian",
    walks: int | None = None,
    seed: int = 0,
    sampled: bool = False,
    dropout: float = 0.0,
) -> GainEstimate:
    """Return the gain at which ⟨ln Z⟩ = 0 (eq. 9), with its standard error and the spread of the final log-norm.

    Exact for neutral activations (linear, relu, leaky_relu). For the others the mean log-norm over sampled walks is
    solved for the gain, which is deterministic for a given seed. With several widths, the result is the one gain of
    all layers at which the whole walk is unbiased. Results are cached: a second call takes microseconds.

    Args:
        activation: a name such as "tanh" or "leaky_relu(0.2)", or an `Activation`; or a block of weight layers and
            dropout, which is repeated. For a block the result is the one factor on all its gains.
        width: units per layer, or all depth + 1 widths, input first.
        depth: the number of weight layers, or of blocks; may be omitted if all widths are given.
        weights: "gaussian", or "orthogonal" for Haar orthogonal matrices.
        walks: the number of sampled walks, at least 8; by default 100 to 2000, fewer for larger networks.
        seed: of the sampled walks.
        sampled: sample neutral activations too, to check the exact gain.
        dropout: the rate of dropout between the activation and the weights of each layer.

    Returns:
        The gain, its standard error, the spread, the kind of the activation and the number of walks.

    Raises:
        ValueError: if the depth is missing, no gain makes the walk unbiased, the block has residual sums or norms, an
            argument is out of range, or no activation has that name.
        TypeError: if an argument has the wrong type.

    >>> solve_gain("relu", width=100, depth=200)
    GainEstimate(value=1.43230..., standard_error=0.0, spread=1.61152..., kind='neutral', walks=0)
    """
    network = _network(activation, checks.rate("solve_gain", "dropout", dropout))
    layers = checks.widths("solve_gain", width, depth)
    checks.one_of("solve_gain", "weights", weights, checks.WEIGHTS)
    number = checks.whole("solve_gain", "seed", seed, least=0, most=2**63)
    default = max(100, min(2000, int(_UNITS / sum(layers))))
    count = default if walks is None else checks.whole("solve_gain", "walks", walks, least=8)
    if _kind(network) == "neutral" and not contains(network, Dropout) and not sampled:
        return neutral_gain(network, layers, weights)
    if walks is None and count * sum(layers) > _MOST_UNITS:
        raise ValueError(
            f"solve_gain: networks of {sum(layers):,} units take long to sample; pass walks=8 or more, or take fewer "
            "or narrower layers"
        )
    return _solve(network, layers, weights, count, number)


def _network(activation: str | Activation | Block, dropout: float) -> Block:
    """Return the block that is repeated: a weight layer, or the block given if a factor on its gains has an effect."""
    if not isinstance(activation, Block):
        return dense(activations.activation(activation), dropout=dropout)
    if contains(activation, Residual):
        raise ValueError(
            "solve_gain: no gain makes the walk through residual sums unbiased; gradwalk.branch_scale returns the "
            f"scale of the branches for a given drift, got {activation}"
        )
    if contains(activation, Norm) or not contains(activation, Dense):
        raise ValueError(
            "solve_gain: a block must have weight layers and no norms, which cancel the gains of the layers before "
            f"them, got {activation}"
        )
    if dropout:
        raise ValueError(f"solve_gain: the weight layers of a block have their own dropout, got dropout={dropout:g}")
    return activation


def _kind(network: Block) -> Kind:
    """Return the kind of the least steady activation."""
    order: tuple[Kind, ...] = ("neutral", "steady", "unsteady")
    return max((kind(layer.activation) for layer in weight_layers(network)), key=order.index)


@lru_cache(maxsize=1024)
def neutral_gain(network: Block, layers: tuple[int, ...], weights: Weights, formula: Formula = "exact") -> GainEstimate:
    """Return the one factor on all gains: exp(-<ln z> / 2), eq. 10, with the mean of <ln z> over the weight layers."""
    counts = _fans(network, layers)
    drift = variance = 0.0
    for (layer, n, out), count in counts.items():
        s = step(layer.activation, n, weights=weights, formula=formula, width_out=out, dropout=layer.dropout)
        drift += count * (s.drift + 2 * math.log(layer.gain))
        variance += count * s.variance
    return GainEstimate(math.exp(-drift / counts.total() / 2), 0.0, math.sqrt(variance) / 2, "neutral", 0)


def _fans(network: Block, layers: tuple[int, ...]) -> Counter[tuple[Dense, int, int]]:
    """Return how often each weight layer occurs, with the number of its inputs and outputs."""
    if isinstance(network, Dense) and network.width is None:
        return Counter((network, n, out) for n, out in pairwise(layers))
    counts: Counter[tuple[Dense, int, int]] = Counter()
    n = layers[0]
    for layer in weight_layers(network):
        out = output_width(layer, n)
        counts[layer, n, out] += len(layers) - 1
        n = out
    return counts


@lru_cache(maxsize=1024)
def _solve(network: Block, layers: tuple[int, ...], weights: Weights, count: int, seed: int) -> GainEstimate:
    """Return the root of the mean log-norm: found with a fifth of the walks, then one Newton step with all of them."""
    parts = list(weight_layers(network))
    depth = (len(layers) - 1) * len(parts)

    def sample(log_gain: float, walks: int) -> Walks:
        block = scaled(network, math.exp(log_gain))
        return simulate(block, layers, walks=walks, rng=seed, weights=weights, every=depth)

    def rough(log_gain: float) -> float:
        return _controlled_mean(sample(log_gain, max(count // 5, 8)))[0]

    low, high = _bracket(rough, float(np.mean([_limit(layer) for layer in parts])), network)
    root = float(scipy.optimize.brentq(rough, low, high, xtol=0.02 / depth))
    slope = (rough(root + 0.2 / depth) - rough(root - 0.2 / depth)) * depth / 0.4
    walks = sample(root, count)
    mean, error = _controlled_mean(walks)
    value = math.exp(root - mean / slope)
    return GainEstimate(value, value * error / abs(slope), walks.spread, _kind(network), count)


def _limit(layer: Dense) -> float:
    """Return ln of the factor on a layer's gain at which |delta|^2 keeps its size in the limit of infinite width."""
    return -0.5 * math.log(chi(layer.activation, 1.0, layer.gain) / (1 - layer.dropout))


def _controlled_mean(walks: Walks) -> tuple[float, float]:
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

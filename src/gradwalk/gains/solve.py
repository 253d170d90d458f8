"""The unbiased gain with its uncertainty: exact, by the expansion in 1 / width, from a table, or by sampled walks."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from gradwalk import activations, checks
from gradwalk.activations import Activation
from gradwalk.blocks import Block, Dense, Dropout, Norm, Residual, contains, dense, output_width, weight_layers
from gradwalk.checks import Formula, Weights
from gradwalk.gains.estimate import GainEstimate, Source
from gradwalk.gains.expansion import Expanded, expanded_gain
from gradwalk.gains.sampled import sampled_gain
from gradwalk.gains.tabulated import Tabulated, tabulated_gain
from gradwalk.theory import Kind, kind, step

_MOST_UNITS = 2e9  # units drawn per trial gain, above which the number of walks must be given
_COARSE = 0.05  # the error of ln g up to which the expansion serves networks that are too large to sample
_UNITS = 1e7  # units drawn per trial gain, where the number of walks is left open


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

    Exact for neutral activations (linear, relu, leaky_relu). For layers of one width from 10 units on, an expansion of
    the walk in 1 / width gives the gain in milliseconds, if it is about as accurate as sampling would be: for tanh,
    elu, selu, sigmoid and the like. Where it is not, as for softplus, gelu, silu and mish, the gains of most built-in
    activations come from tables, up to 2000 units and 2000 layers. Otherwise the mean log-norm over sampled walks is
    solved for the gain, which is deterministic for a given seed. With several widths, the result is the one gain of all
    layers at which the whole walk is unbiased. Results are cached: a second call takes microseconds.

    Args:
        activation: a name such as "tanh" or "leaky_relu(0.2)", or an `Activation`; or a block of weight layers and
            dropout, which is repeated. For a block the result is the one factor on all its gains.
        width: units per layer, or all depth + 1 widths, input first.
        depth: the number of weight layers, or of blocks; may be omitted if all widths are given.
        weights: "gaussian", or "orthogonal" for Haar orthogonal matrices.
        walks: the number of sampled walks, at least 8; by default none if the expansion or a table serves, otherwise
            100 to 2000, fewer for larger networks.
        seed: of the sampled walks.
        sampled: sample neutral activations too, to check the exact gain.
        dropout: the rate of dropout between the activation and the weights of each layer.

    Returns:
        The gain, its standard error, the spread, the kind of the activation, the number of walks and the source.

    Raises:
        ValueError: if the depth is missing, no gain makes the walk unbiased, the block has residual sums or norms, an
            argument is out of range, or no activation has that name.
        TypeError: if an argument has the wrong type.

    >>> solve_gain("relu", width=100, depth=200)
    GainEstimate(value=1.43230..., standard_error=0.0, spread=1.61152..., kind='neutral', walks=0, source='formula')
    """
    network = _network(activation, checks.rate("solve_gain", "dropout", dropout))
    layers = checks.widths("solve_gain", width, depth)
    checks.one_of("solve_gain", "weights", weights, checks.WEIGHTS)
    number = checks.whole("solve_gain", "seed", seed, least=0, most=2**63)
    count = default_walks(layers) if walks is None else checks.whole("solve_gain", "walks", walks, least=8)
    kind = _kind(network)
    if kind == "neutral" and not contains(network, Dropout) and not sampled:
        return neutral_gain(network, layers, weights)
    if sampled or walks is not None:
        return sampled_gain(network, layers, weights, count, number, kind)
    chain = _chain(network, layers)
    known = None if chain is None else _tabulated(chain, layers, weights)
    better = known is not None and not known.quick
    expanded = None if chain is None or better else _expanded(chain, layers, weights)
    too_large = count * sum(layers) > _MOST_UNITS
    enough = too_large and expanded is not None and expanded.log_error < _COARSE
    if expanded is not None and (enough or serves(expanded, weights, count)):
        return _unsampled(expanded.log_gain, expanded.log_error, expanded.spread, kind, "expansion")
    if known is not None:
        return _unsampled(known.log_gain, known.error, known.spread, kind, "table")
    if too_large:
        raise ValueError(
            f"solve_gain: networks of {sum(layers):,} units take long to sample; pass walks=8 or more, or take fewer "
            "or narrower layers"
        )
    return sampled_gain(network, layers, weights, count, number, kind, expanded)


def default_walks(layers: tuple[int, ...]) -> int:
    """Return the number of walks that are sampled where it is left open."""
    return max(100, min(2000, int(_UNITS / sum(layers))))


def _chain(network: Block, layers: tuple[int, ...]) -> Dense | None:
    """Return the layer that is repeated, or None where the layers are not all equal."""
    return network if isinstance(network, Dense) and network.width is None and len(set(layers)) == 1 else None


def _expanded(layer: Dense, layers: tuple[int, ...], weights: Weights) -> Expanded | None:
    expanded = expanded_gain(replace(layer, gain=1.0), layers[0], len(layers) - 1, weights)
    return expanded and expanded._replace(log_gain=expanded.log_gain - math.log(layer.gain))


def _tabulated(layer: Dense, layers: tuple[int, ...], weights: Weights) -> Tabulated | None:
    known = None if layer.dropout else tabulated_gain(layer.activation, layers[0], len(layers) - 1, weights)
    return known and known._replace(log_gain=known.log_gain - math.log(layer.gain))


def serves(expanded: Expanded, weights: Weights, count: int) -> bool:
    """Return whether the expansion is about as accurate as this many walks, of which half the error is controlled."""
    sampling = expanded.spread / math.sqrt(count) * (0.5 if weights == "gaussian" else 1.0)
    return expanded.error <= 2 * sampling


@lru_cache(maxsize=1024)
def _unsampled(log_gain: float, error: float, spread: float, kind: Kind, source: Source) -> GainEstimate:
    value = math.exp(log_gain)
    return GainEstimate(value, value * error, spread, kind, 0, source)


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
    return GainEstimate(math.exp(-drift / counts.total() / 2), 0.0, math.sqrt(variance) / 2, "neutral", 0, "formula")


def _fans(network: Block, layers: tuple[int, ...]) -> Counter[tuple[Dense, int, int]]:
    """Return how often each weight layer occurs, with the number of its inputs and outputs."""
    if isinstance(network, Dense) and network.width is None:
        pairs = Counter(pairwise(layers))  # a network takes longer to hash than a few numbers
        return Counter({(network, n, out): count for (n, out), count in pairs.items()})
    counts: Counter[tuple[Dense, int, int]] = Counter()
    n = layers[0]
    for layer in weight_layers(network):
        out = output_width(layer, n)
        counts[layer, n, out] += len(layers) - 1
        n = out
    return counts

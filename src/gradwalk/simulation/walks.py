"""Many walks at once: networks are drawn in blocks on a few threads, and only their log-norms are kept."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from gradwalk import activations, checks
from gradwalk.activations import Activation, Array, Indices
from gradwalk.blocks import Block, Dense
from gradwalk.checks import Weights
from gradwalk.display import Shown
from gradwalk.simulation import memory, neutral
from gradwalk.simulation.drawing import Drawing, draw, seed_of
from gradwalk.simulation.networks import Networks
from gradwalk.simulation.pairs import PairKind, PairNetworks
from gradwalk.simulation.picture import plot_walks
from gradwalk.simulation.samplers import METHODS, PAIRS, Method, is_chain, pair_sampler, single_sampler
from gradwalk.simulation.tracks import Pair, Tracks

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class LayerSummary(NamedTuple):
    """The log-norm at one layer over all walks: its mean, and its 5 % and 95 % quantiles."""

    layer: int
    mean: float
    p5: float
    p95: float


@dataclass(frozen=True, repr=False, eq=False)
class Walks(Shown):
    """The walks of many networks, one row per walk; columns follow the gradient, from layer D down to layer 0.

    Attributes:
        activation: that of the networks, or the block that they repeat; then layer d is the stream between two blocks,
            and `log_variance` is ln of the mean square of its components.
        widths: of the D + 1 layers, input first.
        gains: of the D weight layers, layer 1 first.
        weights: "gaussian" or "orthogonal".
        log_norm: ln(|delta_d| / |delta_D|) at layer d, half of the paper's ln Z (eq. 8).
        log_variance: ln of the variance of the pre-activations of layer d.
        layers: the layer d of each column.
        luck: two control variates per walk with expectation 0, from the lengths of the random vectors (for relu, of
            their active components); all 0 for orthogonal weights and for method="dense".
        resampled: how many inactive layers were resampled.
        pair: the second gradient of each walk and the angle between the two, where `simulate` was asked for a pair.
    """

    activation: Activation | Block
    widths: tuple[int, ...]
    gains: Array
    weights: Weights
    log_norm: Array
    log_variance: Array
    layers: Indices
    luck: Array
    resampled: int
    pair: Pair | None = None

    def __repr__(self) -> str:
        return (
            f"Walks({len(self.final)} walks of {self.activation}, depth {self.depth}: final log-norm "
            f"{self.mean:.3g}, spread {self.spread:.3g})"
        )

    @property
    def depth(self) -> int:
        """The number of weight layers, D."""
        return len(self.widths) - 1

    @property
    def final(self) -> Array:
        """The log-norm at layer 0, one value per walk."""
        return np.asarray(self.log_norm[:, -1])

    @property
    def mean(self) -> float:
        """The mean of the final log-norm: 0 for an unbiased walk."""
        return float(self.final.mean())

    @property
    def spread(self) -> float:
        """The standard deviation of the final log-norm over the walks; NaN for a single walk."""
        return float(self.final.std(ddof=1)) if len(self.final) > 1 else math.nan

    @property
    def standard_error(self) -> float:
        """The standard error of `mean`; NaN for a single walk."""
        return self.spread / math.sqrt(len(self.final))

    def columns(self) -> dict[str, list[Any]]:
        """Return mean, standard deviation and quantiles of the log-norm as columns, one row per layer that is kept."""
        low, high = np.quantile(self.log_norm, (0.05, 0.95), axis=0)
        numbers = {"mean": self.log_norm.mean(axis=0), "sd": self.log_norm.std(axis=0), "p5": low, "p95": high}
        return {"layer": self.layers.tolist(), **{name: values.tolist() for name, values in numbers.items()}}

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the walks, their mean and the band that holds 90 % of them, and return the axes."""
        return plot_walks(self, ax)

    def summary(self, layers: int = 5) -> list[LayerSummary]:
        """Return mean and quantiles of the log-norm at about that many layers, evenly spaced from D down to 0."""
        columns = np.unique(np.linspace(0, len(self.layers) - 1, layers).round().astype(int))
        means = self.log_norm[:, columns].mean(axis=0)
        low, high = np.quantile(self.log_norm[:, columns], (0.05, 0.95), axis=0)
        rows = zip(self.layers[columns], means, low, high, strict=True)
        return [LayerSummary(int(d), float(mean), float(p5), float(p95)) for d, mean, p5, p95 in rows]


def simulate(
    activation: str | Activation | Block,
    width: int | Sequence[int],
    depth: int | None = None,
    *,
    gain: float | Sequence[float] | None = None,
    walks: int = 400,
    rng: np.random.Generator | int | None = None,
    weights: Weights = "gaussian",
    method: Method = "exact",
    every: int = 1,
    pair: PairKind | None = None,
) -> Walks:
    """Return samples of the walk of the gradient's log-norm, ln(|delta_d| / |delta_D|), through random networks.

    The networks are those of eq. 1 to 7, a = g W h and h = f(a), in the convention that makes all D steps alike: a_0
    is a standard normal vector, h_0 = f(a_0), delta_D is a random vector, and the last step includes f'(a_0). Layers
    through which nothing passes are resampled, as in the paper, and counted. Samples are exact in law, to rounding.
    The same seed gives the same walks on any number of cores.

    Args:
        activation: a name such as "tanh" or "leaky_relu(0.2)", or an `Activation`; or a block (see `gradwalk.blocks`),
            which is repeated `depth` times. A block carries its own gains, and its walk starts with a stream of unit
            variance.
        width: units per layer, or all depth + 1 widths, input first.
        depth: the number of weight layers D; may be omitted if all widths are given.
        gain: the factor g on weights of variance 1 / fan_in; one for all layers, or one per layer, layer 1 first.
            From 1e-9 to 1e9. Required for an activation, not allowed for a block.
        walks: the number of networks to sample.
        rng: a NumPy generator, a seed, or None for a random seed.
        weights: "gaussian", or "orthogonal" for Haar orthogonal matrices with entries of the same variance.
        method: "exact" draws no matrix and costs O(width) per layer, or O(1) for linear, relu and leaky_relu;
            "dense" draws the matrices.
        every: keep every k-th layer of the result, and the first and last, where all of them would not fit in memory.
        pair: "gradients" for a second random gradient at the same input of each network, "inputs" for a second,
            independent input with a gradient of its own. `Walks.pair` then has the angle between the two. The two
            inputs share the weights of the network; dropout masks are drawn for each, as for the examples of a batch.
            Every layer must have at least 3 units.

    Returns:
        The walks: their log-norms at every layer, with mean, standard error and spread at the end.

    Raises:
        ValueError: if the gain or the depth is missing, an argument is out of range, or no activation has that name.
        TypeError: if an argument has the wrong type.

    >>> walks = simulate("relu", 100, 50, gain=1.4323, walks=200, rng=1)
    >>> walks.log_norm.shape, abs(walks.mean) < 4 * walks.standard_error
    ((200, 51), True)
    """
    network = activation if isinstance(activation, Block) else activations.activation(activation)
    layers = checks.widths("simulate", width, depth)
    gains = _gains(gain, len(layers) - 1, network)
    count = checks.whole("simulate", "walks", walks)
    checks.one_of("simulate", "weights", weights, checks.WEIGHTS)
    checks.one_of("simulate", "method", method, METHODS)
    spacing = checks.whole("simulate", "every", every, most=checks.DEEPEST)
    if pair is not None:
        checks.one_of("simulate", "pair", pair, PAIRS)
        if method != "exact":
            raise ValueError(f"simulate: pairs are sampled by method='exact' only, got method={method!r}")
    kept = memory.kept_layers(len(layers) - 1, spacing, count * (1 if pair is None else 4))
    cells = (np.empty((count, len(kept))) for _ in range(7))
    log_norm, log_variance, luck = next(cells), next(cells), np.empty((count, 2))
    second = None if pair is None else Pair(*cells)
    sampled = Walks(network, layers, gains, weights, log_norm, log_variance, kept, luck, resampled=0, pair=second)
    resampled = _fill(sampled, _drawing(sampled, method, pair), seed_of(rng))
    if not all(np.isfinite(values).all() for values in (log_norm, log_variance, *(second or ()))):
        raise ValueError(f"simulate: the signal or the gradient of {network} exceeds the range of floating point")
    return replace(sampled, resampled=resampled)


class Drawn(Protocol):
    """A block of networks, drawn once."""

    @property
    def luck(self) -> Array | float:
        """Two control variates per walk with expectation 0."""

    def walk(self, tracks: Tracks) -> int:
        """Fill the rows of this block, and return how many layers were resampled."""


def _drawing(walks: Walks, method: Method, pair: PairKind | None) -> Drawing[Drawn]:
    network, weights, widths, gains = walks.activation, walks.weights, walks.widths, walks.gains
    if pair is not None:
        return _pair_drawing(walks, pair)
    slopes = None if isinstance(network, Block) or method != "exact" else neutral.sides(network)
    if slopes is not None:
        return Drawing(
            memory.plan_without_vectors(len(walks.log_norm)),
            lambda arena, seed, advance: neutral.NeutralNetworks(slopes, weights, widths, gains, seed, advance),
        )
    sampler = single_sampler(network, method, widths)
    return Drawing(
        memory.plan(sampler, widths, len(walks.log_norm)),
        lambda arena, seed, advance: Networks(sampler(network, weights, arena, seed), widths, gains, advance),
    )


def _pair_drawing(walks: Walks, pair: PairKind) -> Drawing[Drawn]:
    sampler = pair_sampler(walks.activation, pair, walks.widths)
    return Drawing(
        memory.plan(sampler, walks.widths, len(walks.log_norm)),
        lambda arena, seed, advance: PairNetworks(
            sampler(walks.activation, walks.weights, arena, seed), walks.widths, walks.gains, advance
        ),
    )


def _fill(walks: Walks, drawing: Drawing[Drawn], seed: np.random.SeedSequence) -> int:
    """Sample the rows of `walks`, and return how many layers were resampled."""
    tracks = Tracks(walks.layers, walks.log_norm, walks.log_variance, walks.pair)

    def fill(networks: Drawn, rows: slice) -> int:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # checked in simulate() and signal.py
            resampled = networks.walk(tracks.rows(rows))
        walks.luck[rows] = networks.luck
        return resampled

    return draw(drawing, len(walks.log_norm), seed, fill, f"{walks.activation} walks", walks.depth)


def _gains(gain: float | Sequence[float] | None, depth: int, network: Activation | Block) -> Array:
    if isinstance(network, Block):
        if gain is not None:
            raise ValueError(f"simulate: the weight layers of a block have their own gains, got gain={gain!r}")
        return np.full(depth, network.gain if isinstance(network, Dense) and is_chain(network) else 1.0)
    if gain is None:
        raise ValueError(f"simulate: gain is missing; gradwalk.gain({network.name!r}, ...) is the unbiased one")
    if checks.is_several(gain):
        gains = [checks.positive("simulate", "gain", g, *checks.GAIN_RANGE) for g in gain]
        if len(gains) != depth:
            raise ValueError(f"simulate: gain must be one number or depth={depth} of them, got {len(gains)}")
        return np.array(gains)
    return np.full(depth, checks.positive("simulate", "gain", gain, *checks.GAIN_RANGE))

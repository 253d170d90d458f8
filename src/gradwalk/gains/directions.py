"""How many directions pass through a network: the other half of trainability, beside the norm of the gradient."""

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from gradwalk import activations, checks
from gradwalk.activations import Activation
from gradwalk.blocks import Block, Dense, narrowest
from gradwalk.checks import Weights
from gradwalk.display import BLUE, INK, RED, Shown, axes_of
from gradwalk.gains.solve import solve_gain
from gradwalk.simulation import LEAST_UNITS, least_units, sample_participation, simulate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LARGEST = 200_000  # units of all layers of a passage together, above which sampling would take long
_UNITS = 1e6  # drawn per estimate, times the number of gradients per network, where the number of networks is left open


@dataclass(frozen=True, repr=False)
class Directions(Shown):
    """How many directions pass through random networks at their initialization.

    Attributes:
        activation: that of the networks, or the block that they repeat.
        width: units per layer, or all widths, input first.
        depth: the number of weight layers, or of blocks.
        weights: "gaussian" or "orthogonal".
        gain: the factor on the weights, or one per layer; None for a block, whose weight layers have their own.
        backward: the mean over networks of the participation ratio of the squared singular values of the Jacobian:
            how many independent gradients at one input still differ at layer 0. From 1 to the width.
        standard_error: of `backward`.
        forward: 1 / ⟨cos^2⟩ of the angle between the pre-activations of two independent inputs at layer D: about the
            width if the network tells inputs apart, 1 if it takes all of them to one line.
        forward_error: the standard error of `forward`.
        spread: the standard deviation of the final log-norm over the networks.
        networks: how many were sampled.
        units: the number of units at the narrowest place: no more directions can pass.
    """

    activation: str
    width: int | tuple[int, ...]
    depth: int
    weights: Weights
    gain: float | tuple[float, ...] | None
    backward: float
    standard_error: float
    forward: float
    forward_error: float
    spread: float
    networks: int
    units: int

    def __repr__(self) -> str:
        backward = f"{self.backward:.1f} ± {self.standard_error:.1f} backward"
        forward = f"{self.forward:.1f} ± {self.forward_error:.1f} forward"
        return (
            f"Directions({self.activation}, depth {self.depth}, {self.weights}: {backward}, {forward}, of {self.units})"
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw how many directions pass backward and forward, of how many, and return the axes."""
        panel = axes_of(ax)
        errors = [2 * self.standard_error, 2 * self.forward_error]
        panel.bar(["backward", "forward"], [self.backward, self.forward], yerr=errors, color=[BLUE, RED], width=0.6)
        panel.axhline(self.units, color=INK, linestyle="--", label=f"width of the narrowest layer, {self.units}")
        panel.set(yscale="log", ylabel="directions that pass, ± 2 standard errors", ylim=(0.8, 1.5 * self.units))
        panel.set_title(f"{self.activation}, depth {self.depth}, {self.weights} weights", fontsize=10)
        panel.legend(frameon=False)
        return panel

    def rows(self) -> list[tuple[str, str]]:
        """Return what is known as names and values."""
        return [
            ("directions that pass backward", f"{self.backward:.2f} ± {self.standard_error:.2f} of {self.units}"),
            ("directions that pass forward", f"{self.forward:.2f} ± {self.forward_error:.2f} of {self.units}"),
            ("spread of the final log-norm", f"{self.spread:.3f}"),
            ("gain g", _shown_gain(self.gain)),
            ("weights", self.weights),
            ("networks sampled", f"{self.networks}"),
        ]

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>" for name, value in self.rows()
        )
        return f"<table><caption>{html.escape(self.activation)}, depth {self.depth}</caption>{cells}</table>"


def _shown_gain(gain: float | tuple[float, ...] | None) -> str:
    if gain is None:
        return "those of the block"
    return f"{gain:.6f}" if isinstance(gain, float) else f"{len(gain)} gains"


@dataclass(frozen=True)
class Passage:
    """The way of gradients through a chain of dense layers, and how many directions are predicted to pass it.

    Attributes:
        activation: the one between the layers.
        widths: of the signals, that of the lowest layer first.
        gains: of the weights between them.
        weights: "gaussian" or "orthogonal".
    """

    activation: Activation
    widths: tuple[int, ...]
    gains: tuple[float, ...]
    weights: Weights

    @classmethod
    def through(
        cls,
        widths: Sequence[int],
        reads: Sequence[Activation | None],
        gains: Sequence[float],
        weights: Callable[[], Weights],
    ) -> "Passage | None":
        """Return the passage from the output of the last of some dense layers back to that of the first.

        There is one entry per layer: its outputs, the activation that it reads, its gain. `weights` returns the kind of
        weights. None is returned for layers that do not all read the same activation, are too many to sample, or are
        zero.
        """
        if widths and widths[-1] < LEAST_UNITS:  # a scalar output: the passage ends at the layer before it
            widths, reads, gains = widths[:-1], reads[:-1], gains[:-1]
        if len(widths) < 2 or min(widths) < LEAST_UNITS or sum(widths) > _LARGEST:
            return None
        f = reads[1]
        if f is None or any(each != f for each in reads[1:]) or not all(0 < gain < math.inf for gain in gains[1:]):
            return None
        return cls(f, tuple(widths), tuple(map(float, gains[1:])), weights())

    @property
    def units(self) -> int:
        """The width of the narrowest layer: no more directions can pass."""
        return min(self.widths)

    @property
    def directions(self) -> float:
        """How many directions pass backward, sampled when it is asked for; NaN where the signal leaves all bounds."""
        count = default_networks(self.widths)
        try:
            return backward_directions(self.activation, self.widths, self.weights, self.gains, count, 0)[0]
        except ValueError:
            return math.nan


def directions(
    activation: str | Activation | Block,
    width: int | Sequence[int],
    depth: int | None = None,
    *,
    weights: Weights = "gaussian",
    gain: float | Sequence[float] | None = None,
    networks: int | None = None,
    seed: int = 0,
) -> Directions:
    """Return how many directions pass through random networks, backward and forward.

    A gradient whose norm is kept may still be of little use: if one direction passes, all examples move the weights in
    the same way. From Gaussian weights few directions pass once the depth reaches the width; from orthogonal ones more.

    Sampled, exact in law; the participation ratio is that of each network, averaged over the networks, with a bias of
    a few percent at most, none for up to 16 outputs. Results are cached. The cost is O(width) per layer.

    Args:
        activation: a name such as "tanh" or "gelu@0.8", or an `Activation`; or a block (see `gradwalk.blocks`), which
            is repeated `depth` times.
        width: units per layer, or all depth + 1 widths, input first; at least 3.
        depth: the number of weight layers, or of blocks; may be omitted if all widths are given.
        weights: "gaussian", or "orthogonal" for Haar orthogonal matrices.
        gain: the factor on the weights, for all layers or one per layer (default: the unbiased gain). Not allowed for a
            block, which carries its own gains.
        networks: how many to sample, at least 8; by default 16 to 128, fewer for larger networks.
        seed: of the samples.

    Returns:
        The number of directions both ways, with standard errors, and the spread of the walk.

    Raises:
        ValueError: if there is no unbiased gain, an argument is out of range, or no activation has that name.
        TypeError: if an argument has the wrong type.

    >>> directions("linear", width=20, depth=50, weights="orthogonal")
    Directions(linear, depth 50, orthogonal: 20.0 ± 0.0 backward, 18.7 ± 0.8 forward, of 20)
    """
    network = activation if isinstance(activation, Block) else activations.activation(activation)
    widths = checks.widths("directions", width, depth)
    checks.one_of("directions", "weights", weights, checks.WEIGHTS)
    number = checks.whole("directions", "seed", seed, least=0, most=2**63)
    count = default_networks(widths) if networks is None else checks.whole("directions", "networks", networks, least=8)
    if (least := least_units(network, widths)) < LEAST_UNITS:
        raise ValueError(f"directions: every layer must have at least {LEAST_UNITS} units, got a layer of {least}")
    gains = _gains(network, widths, weights, gain, number)
    sampled = _sampled(network, widths, weights, gains, count, number)
    shown, depth = widths if checks.is_several(width) else widths[0], len(widths) - 1
    units = narrowest(network, widths[0]) if isinstance(network, Block) else min(widths)
    return Directions(str(network), shown, depth, weights, gains, *sampled, networks=count, units=units)


def _gains(
    network: Activation | Block,
    widths: tuple[int, ...],
    weights: Weights,
    gain: float | Sequence[float] | None,
    seed: int,
) -> float | tuple[float, ...] | None:
    """Return the gains to sample with, None for a block."""
    if isinstance(network, Block):
        if gain is not None:
            raise ValueError(f"directions: the weight layers of a block have their own gains, got gain={gain!r}")
        return None
    if gain is None:
        gain = solve_gain(network, widths, weights=weights, seed=seed).value
    return tuple(map(float, gain)) if checks.is_several(gain) else float(gain)  # type: ignore[arg-type]


def default_networks(widths: Sequence[int]) -> int:
    """Return how many networks an estimate of directions rests on by default."""
    return max(16, min(128, int(_UNITS / sum(widths))))


@lru_cache(maxsize=1024)
def backward_directions(
    network: Activation | Block,
    widths: tuple[int, ...],
    weights: Weights,
    gain: float | tuple[float, ...] | None,
    count: int,
    seed: int,
) -> tuple[float, float]:
    """Return the mean participation ratio of that many networks, and its standard error."""
    own = network.gain if isinstance(network, Dense) else 1.0
    gains = np.broadcast_to(np.asarray(own if gain is None else gain, dtype=float), len(widths) - 1)
    ratios = sample_participation(network, widths, gains, weights, count, np.random.SeedSequence(seed))
    return float(ratios.mean()), float(ratios.std(ddof=1)) / math.sqrt(count)


@lru_cache(maxsize=1024)
def _sampled(
    network: Activation | Block,
    widths: tuple[int, ...],
    weights: Weights,
    gain: float | tuple[float, ...] | None,
    count: int,
    seed: int,
) -> tuple[float, float, float, float, float]:
    """Return directions backward and forward, each with its standard error, and the spread of the final log-norm."""
    backward = backward_directions(network, widths, weights, gain, count, seed)
    many, depth = 8 * count, len(widths) - 1
    pairs = simulate(network, widths, gain=gain, walks=many, rng=seed, weights=weights, every=depth, pair="inputs")
    assert pairs.pair is not None
    squared = pairs.pair.signal_cosine[:, 0] ** 2
    forward = 1 / float(squared.mean())
    error = forward**2 * float(squared.std(ddof=1)) / math.sqrt(many)
    return *backward, forward, error, pairs.spread

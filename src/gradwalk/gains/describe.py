"""`gain`, the number that most people want, and `describe_gain`, which returns it with all that is known of it."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradwalk import activations, checks
from gradwalk.activations import Activation
from gradwalk.blocks import Block, Dense, dense
from gradwalk.checks import Formula, Weights
from gradwalk.display import Shown, plot_expected_walk
from gradwalk.gains.estimate import GainEstimate
from gradwalk.gains.reach import SERVICEABLE, UnsteadyWarning, unsteady_message
from gradwalk.gains.solve import neutral_gain, solve_gain
from gradwalk.theory import Kind, Step, kind, step

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class GainDescription(Shown):
    """An unbiased gain and related quantities; what is unknown or undefined is None.

    Attributes:
        activation: the name of the activation that the gain is for.
        width: units per layer, or all widths, input first.
        depth: the number of weight layers, None where one width was given without a depth.
        weights: "gaussian" or "orthogonal".
        formula: "exact" or "paper".
        dropout: the rate of dropout.
        gain: the factor g on the weights.
        kind: of the activation: "neutral", "steady" or "unsteady".
        step: drift and variance of ln z at gain 1, for a neutral activation and one width. With formula="paper", eq. 14
            gives the variance of the log-norm for "linear", a quarter of that of ln z.
        estimate: the gain's standard error and the spread of the final log-norm, where the depth is known and the
            formula is "exact".
        warning: why the gain is of no use at this depth, for unsteady activations.
    """

    activation: str
    width: int | tuple[int, ...]
    depth: int | None
    weights: Weights
    formula: Formula
    gain: float
    kind: Kind
    step: Step | None = None
    estimate: GainEstimate | None = None
    warning: str | None = None
    dropout: float = 0.0

    def __repr__(self) -> str:
        size = f"width {self.width}" + ("" if self.depth is None else f", depth {self.depth}")
        return f"GainDescription({self.activation}, {size}, {self.weights} weights: gain {self.gain:.6g}, {self.kind})"

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the walks that are expected at this gain, and return the axes; the spread must be known.

        Raises:
            ValueError: if no depth was given, or the formula is "paper".
        """
        if self.estimate is None:
            raise ValueError("plot: the spread of the walks is not known; pass depth= and formula='exact'")
        return plot_expected_walk(ax, 0.0, self.estimate.spread, f"{self.activation}, g = {self.gain:.5g}")

    @property
    def weight_std(self) -> float | tuple[float, ...]:
        """The standard deviation of the weights, g / sqrt(fan_in); with several widths one per layer, layer 1 first."""
        if isinstance(self.width, int):
            return self.gain / math.sqrt(self.width)
        return tuple(self.gain / math.sqrt(fan_in) for fan_in in self.width[:-1])


def gain(
    activation: str | Activation | Block,
    width: int | Sequence[int],
    depth: int | None = None,
    *,
    weights: Weights = "gaussian",
    formula: Formula = "exact",
    seed: int = 0,
    dropout: float = 0.0,
) -> float:
    """Return the gain g at which the log-norm of the gradient does an unbiased walk: g = exp(-⟨ln z⟩ / 2), eq. 10.

    Draw weights with standard deviation g / sqrt(fan_in). The gain is exact for neutral activations (linear, relu,
    leaky_relu), which need no depth. For the others it depends on depth, and takes milliseconds in most cases; see
    `solve_gain`, which also returns its standard error. Results are cached. For gelu, silu and mish no gain serves a
    deep network, and `gain` warns.

    Args:
        activation: a name such as "tanh" or "leaky_relu(0.2)", or an `Activation`; or a block without residual sums
            and norms (see `solve_gain`), for which the result is the one factor on all its gains.
        width: units per layer (N), or all depth + 1 widths, input first; then the result is one gain for all layers.
        depth: the number of weight layers (D).
        weights: "gaussian", or "orthogonal" for Haar orthogonal matrices.
        formula: "exact", or "paper" for eq. 13 and eq. 18 as printed (linear and relu with Gaussian weights).
        seed: of the sampled walks.
        dropout: the rate of dropout between the activation and the weights of each layer.

    Returns:
        The gain g. Draw the weights with standard deviation g / sqrt(fan_in), and set biases to 0.

    Raises:
        ValueError: if the depth is missing, no gain makes the walk unbiased (very narrow layers), an argument is out of
            range, or no activation has that name.
        TypeError: if an argument has the wrong type.

    Warns:
        UnsteadyWarning: if the log-norms of single networks spread too far at any gain.

    >>> gain("relu", 100), gain("relu", 100, formula="paper")
    (1.43230..., 1.43170...)
    """
    if isinstance(activation, Block):
        if formula != "exact":
            raise ValueError(f"gain: the paper prints no formula for blocks; use formula='exact', got {activation}")
        return _of_block(activation, solve_gain(activation, width, depth, weights=weights, seed=seed, dropout=dropout))
    description = describe_gain(activation, width, depth, weights=weights, formula=formula, seed=seed, dropout=dropout)
    if description.warning is not None:
        warnings.warn(description.warning, UnsteadyWarning, stacklevel=2)
    return description.gain


def _of_block(block: Block, estimate: GainEstimate) -> float:
    """Return the gain of a block, after a warning where single networks are too far from it."""
    if estimate.kind == "unsteady" and estimate.spread > SERVICEABLE:
        message = f"gain: {block} is unsteady: the final log-norm has a spread of {estimate.spread:.1f}"
        warnings.warn(message, UnsteadyWarning, stacklevel=3)
    return estimate.value


def describe_gain(
    activation: str | Activation,
    width: int | Sequence[int],
    depth: int | None = None,
    *,
    weights: Weights = "gaussian",
    formula: Formula = "exact",
    seed: int = 0,
    dropout: float = 0.0,
) -> GainDescription:
    """Return the unbiased gain with related quantities; it does not warn.

    Args:
        activation: a name such as "tanh" or "leaky_relu(0.2)", or an `Activation`.
        width: units per layer (N), or all depth + 1 widths, input first.
        depth: the number of weight layers (D); not needed for neutral activations.
        weights: "gaussian", or "orthogonal" for Haar orthogonal matrices.
        formula: "exact", or "paper" for eq. 13 and eq. 18 as printed.
        seed: of the sampled walks.
        dropout: the rate of dropout between the activation and the weights of each layer.

    Returns:
        The gain, the kind of the activation, and its step, standard error, spread and warning where there are such.

    Raises:
        ValueError: as `gain`.
        TypeError: as `gain`.

    >>> describe_gain("relu", 100).step
    Step(drift=-0.71856..., variance=0.05193...)
    """
    f = activations.activation(activation)
    checks.one_of("gain", "weights", weights, checks.WEIGHTS)
    checks.one_of("gain", "formula", formula, checks.FORMULAS)
    layer = dense(f, dropout=checks.rate("gain", "dropout", dropout))
    several = checks.is_several(width)
    if depth is None and not several:
        return _without_depth(layer, checks.whole("gain", "width", width), weights, formula)
    layers = checks.widths("gain", width, depth)
    exact = formula == "exact"
    if exact:
        estimate = solve_gain(f, width, depth, weights=weights, seed=seed, dropout=dropout)
    else:
        estimate = neutral_gain(layer, layers, weights, formula)
    neutral = estimate.kind == "neutral"
    return GainDescription(
        activation=f.name,
        width=layers if several else layers[0],
        depth=len(layers) - 1,
        weights=weights,
        formula=formula,
        gain=estimate.value,
        kind=estimate.kind,
        step=_step(layer, layers[0], weights, formula) if neutral and not several else None,
        estimate=estimate if exact else None,
        warning=_warning(layer, layers, estimate, weights, seed),
        dropout=layer.dropout,
    )


def _step(layer: Dense, width: int, weights: Weights, formula: Formula) -> Step:
    return step(layer.activation, width, weights=weights, formula=formula, dropout=layer.dropout)


def _without_depth(layer: Dense, width: int, weights: Weights, formula: Formula) -> GainDescription:
    f = layer.activation
    if formula == "exact" and kind(f) != "neutral":
        raise ValueError(f"gain: the gain of {f} depends on depth, which is missing; pass depth=")
    s = _step(layer, width, weights, formula)
    g = math.exp(-s.drift / 2)  # eq. 10
    return GainDescription(f.name, width, None, weights, formula, g, kind(f), s, dropout=layer.dropout)


def _warning(layer: Dense, layers: tuple[int, ...], estimate: GainEstimate, weights: Weights, seed: int) -> str | None:
    depth = len(layers) - 1
    width = round(sum(layers[:-1]) / depth)
    return unsteady_message(
        layer.activation,
        width,
        depth,
        spread=estimate.spread,
        weights=weights,
        seed=seed,
        where="gain",
        dropout=layer.dropout,
    )

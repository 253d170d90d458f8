"""`advise`: the remedies for a network through which too few directions pass, ranked, with their price."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk import activations, checks
from gradwalk.activations import Activation
from gradwalk.checks import Weights
from gradwalk.display import BLUE, INK, RED, Shown, axes_of
from gradwalk.gains import SERVICEABLE
from gradwalk.remedies.families import (
    ENOUGH,
    HOPELESS,
    Setting,
    bend_for,
    checked_directions,
    leak_of,
    leaking,
    outcome,
    quieter,
)
from gradwalk.simulation import simulate
from gradwalk.theory import kind, nonlinearity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STEEP = 100.0  # a scale at which unsteady activations are nearly homogeneous
_HEAD = ("remedy", "activation", "weights", "gain", "directions", "spread", "nonlinear")
_Q_RANGE = (1e-12, 1e8)  # of the variance of the signal, for quadrature


@dataclass(frozen=True)
class Remedy:
    """One way to initialise a network, and what comes of it.

    Attributes:
        name: what is done.
        activation: the activation that all layers then have, as a name that `gradwalk.activation` reads.
        weights: "gaussian" or "orthogonal".
        gain: the unbiased gain of all layers, NaN where there is none.
        directions: how many directions pass backward.
        standard_error: of `directions`.
        spread: the standard deviation of the final log-norm over networks.
        nonlinear: the price: which share of the output's variance is no linear function of the input, taken as 1 less
            the product over the layers of what a linear function explains of the activation. At 0 the network is
            linear.
        serves: whether enough directions pass at a serviceable spread.
    """

    name: str
    activation: str
    weights: Weights
    gain: float
    directions: float
    standard_error: float
    spread: float
    nonlinear: float
    serves: bool


@dataclass(frozen=True, repr=False)
class Advice(Shown):
    """Remedies for one network, the best first: those that serve, the least linear one before the others.

    Attributes:
        activation: that of the network.
        width: units per layer.
        depth: the number of weight layers.
        directions: how many directions must pass.
        remedies: all that were considered, the network as it is among them. Prints as a table.
    """

    activation: str
    width: int
    depth: int
    directions: float
    remedies: tuple[Remedy, ...]

    @property
    def best(self) -> Remedy | None:
        """The first of the remedies, None if none of them serves."""
        return self.remedies[0] if self.remedies[0].serves else None

    @property
    def headline(self) -> str:
        """The advice in a sentence."""
        network = f"{self.depth} layers of {self.width} units, {self.activation}"
        if self.best is None:
            return f"{network}: nothing here lets {self.directions:g} directions pass; use more units or fewer layers"
        if self.best == next((each for each in self.remedies if each.name == _AS_IT_IS), None):
            return f"{network}: {self.best.directions:.1f} directions pass; nothing needs to be changed"
        return f"{network}: {self.best.name} ({self.best.activation}, gain {self.best.gain:.5f})"

    def cells(self) -> list[tuple[str, ...]]:
        """Return the remedies as a table of text, the first row being its head."""
        return [_HEAD, *(_cells(remedy) for remedy in self.remedies)]

    def __str__(self) -> str:
        cells = self.cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = (
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
        )
        return "\n".join([self.headline, *lines])

    def __repr__(self) -> str:
        return f"Advice({self.headline})"

    def columns(self) -> dict[str, list[Any]]:
        """Return the remedies as named columns, ready for pandas.DataFrame."""
        return {field.name: [getattr(each, field.name) for each in self.remedies] for field in fields(Remedy)}

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw how many directions pass with each remedy, and how many must, and return the axes."""
        panel = axes_of(ax)
        values = [remedy.directions for remedy in self.remedies]
        errors = [2 * remedy.standard_error for remedy in self.remedies]
        colours = [BLUE if remedy.serves else RED for remedy in self.remedies]
        panel.barh([remedy.name for remedy in self.remedies], values, xerr=errors, color=colours)
        panel.axvline(self.directions, color=INK, linestyle="--", label=f"{self.directions:g} must pass")
        panel.set(xlabel="directions that pass, ± 2 standard errors", xlim=(0, None))
        panel.invert_yaxis()
        panel.legend(frameon=False)
        return panel


_AS_IT_IS = "as it is"


def advise(
    activation: str | Activation, width: int, depth: int, *, directions: float = ENOUGH, seed: int = 0
) -> Advice:
    """Return what to change so that enough directions pass through a network, the remedies ranked, with their price.

    Considered are orthogonal weights, a leak s a + (1 - s) f(a) with s for the depth, a smaller signal f(s a) / s (the
    same as a first layer with weights s times as large and a last one with weights 1 / s times as large), and for
    unsteady activations a scale of 100. All numbers are sampled at the unbiased gain, at finite width.

    Args:
        activation: a name such as "gelu", or an `Activation`.
        width: units per layer, at least 3.
        depth: the number of weight layers.
        directions: how many must pass backward; more than 1 and below the width.
        seed: of the samples.

    Returns:
        The remedies, the best first; prints as a table.

    Raises:
        ValueError: if an argument is out of range, or no activation has that name.
        TypeError: if an argument has the wrong type.

    >>> print(advise("linear", width=20, depth=10).headline)
    10 layers of 20 units, linear: orthogonal weights (linear, gain 1.00000)
    """
    f = activations.activation(activation)
    n = checks.whole("advise", "width", width, least=3)
    layers = checks.whole("advise", "depth", depth, most=checks.DEEPEST)
    least = checked_directions("advise", directions, n)
    remedies = list(_considered(f, n, layers, least, checks.whole("advise", "seed", seed, least=0, most=2**63)))
    remedies.sort(key=lambda remedy: (not remedy.serves, -remedy.nonlinear if remedy.serves else -remedy.directions))
    return Advice(f.name, n, layers, least, tuple(remedies))


def _considered(f: Activation, width: int, depth: int, least: float, seed: int) -> Iterator[Remedy]:
    gaussian, orthogonal = (Setting(width, depth, weights, seed) for weights in checks.WEIGHTS)
    yield _remedy(_AS_IT_IS, f, gaussian, least)
    yield _remedy("orthogonal weights", f, orthogonal, least)
    for setting in (gaussian, orthogonal):
        bend = bend_for(leaking, f, setting, least)
        if bend is not None and bend < 1:
            yield _remedy(f"leak {leak_of(bend):g}, {setting.weights} weights", leaking(f, bend), setting, least)
    if kind(f) == "neutral":
        return
    bend = bend_for(quieter, f, orthogonal, least)
    if bend is not None and bend < 1:
        yield _remedy(f"signal times {bend:.2g}, orthogonal weights", quieter(f, bend), orthogonal, least)
    if kind(f) == "unsteady":
        yield _remedy(f"scale {_STEEP:g}, orthogonal weights", f.scaled(_STEEP), orthogonal, least)


def _remedy(name: str, f: Activation, setting: Setting, least: float) -> Remedy:
    reached = outcome(f, setting)
    nonlinear = math.nan if reached == HOPELESS else _nonlinear(f, setting, reached.gain)
    return Remedy(name, f.name, setting.weights, *reached, nonlinear, reached.serves(least))


def _nonlinear(f: Activation, setting: Setting, gain: float) -> float:
    """Return the share of the output that is not linear in the input, with the variance of the signal as sampled."""
    width, depth, weights, seed = setting
    every = max(1, depth // 8)
    walks = simulate(f, width, depth, gain=gain, walks=16, rng=seed, weights=weights, every=every)
    variances = np.clip(np.exp(np.median(walks.log_variance[:, 1:], axis=0)), *_Q_RANGE)
    explained = [math.log1p(-nonlinearity(f, float(q))) for q in variances]
    return 1 - math.exp(depth * float(np.mean(explained)))


def _cells(remedy: Remedy) -> tuple[str, ...]:
    if math.isnan(remedy.gain):
        return (remedy.name, remedy.activation, remedy.weights, "none", "-", "-", "-")
    spread = f"{remedy.spread:.2f}" + " (too wide)" * (remedy.spread > SERVICEABLE)
    passing = f"{remedy.directions:.1f} ± {remedy.standard_error:.1f}"
    share = f"{100 * remedy.nonlinear:.0f} %"
    return (remedy.name, remedy.activation, remedy.weights, f"{remedy.gain:.5f}", passing, spread, share)

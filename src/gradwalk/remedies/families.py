"""Families of activations that lead from f to a linear function, and how far along them enough directions pass.

A member of a family has a bend t from 0 (linear) to 1 (f itself): a leak is s a + (1 - s) f(a) with s = 1 - t, a
smaller signal f(t a) / t. The relative variance of the squared singular values grows by about t^2 per layer, so that t
falls as 1 / sqrt(depth). The limit of infinite width is where the search with the sampler starts.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import scipy

from gradwalk import activations, checks
from gradwalk.activations import Activation
from gradwalk.checks import Weights
from gradwalk.gains import SERVICEABLE, backward_directions, default_networks, solve_gain
from gradwalk.theory import kind, wide_directions

Family = Callable[[Activation, float], Activation]

ENOUGH = 6.0  # directions from which plain networks of up to a thousand layers were seen to learn within 300 steps
_AIM = 1.1  # times the directions asked for, so that errors of the estimate do not matter
_CLOSE = 1.3  # times the directions asked for, at which a search ends
_TRIALS = 8
_WALKS = 64  # per gain of an unsteady activation: its error shifts the final log-norm by an eighth of the spread
_BENDS = (1e-3, 0.999)


class Outcome(NamedTuple):
    """What comes of an activation in a network: the unbiased gain, the directions that pass, and the spread."""

    gain: float
    directions: float
    standard_error: float
    spread: float

    def serves(self, least: float) -> bool:
        """Return whether that many directions pass, at a serviceable spread."""
        return self.directions >= least and self.spread <= SERVICEABLE


class Setting(NamedTuple):
    """The networks that a remedy is for."""

    width: int
    depth: int
    weights: Weights
    seed: int = 0


HOPELESS = Outcome(math.nan, 1.0, 0.0, math.inf)


@lru_cache(maxsize=512)
def outcome(f: Activation, setting: Setting) -> Outcome:
    """Return what comes of an activation; `HOPELESS` where no gain makes the walk unbiased."""
    width, depth, weights, seed = setting
    widths = (width,) * (depth + 1)
    try:
        walks = _WALKS if kind(f) == "unsteady" else None
        estimate = solve_gain(f, width, depth, weights=weights, seed=seed, walks=walks)
        passing = backward_directions(f, widths, weights, estimate.value, default_networks(widths), seed)
    except ValueError:  # the signal of an unsteady activation leaves all bounds
        return HOPELESS
    return Outcome(estimate.value, *passing, estimate.spread)


def leaking(f: Activation, bend: float) -> Activation:
    """Return f with a leak of 1 - bend, to three digits."""
    return f.leaking(leak_of(bend))


def leak_of(bend: float) -> float:
    """Return the leak of a bend, to three digits or to two of the bend."""
    return round(1 - bend, 3 if bend >= 0.02 else 4)


def quieter(f: Activation, bend: float) -> Activation:
    """Return f(bend * a) / bend, to two digits: the network of f at a signal smaller by that factor."""
    return f if bend == 1 else f.scaled(float(f"{bend:.2g}"))


@lru_cache(maxsize=512)
def bend_for(family: Family, f: Activation, setting: Setting, least: float) -> float | None:
    """Return about the largest bend at which enough directions pass at a serviceable spread, None if there is none."""
    if outcome(f, setting).serves(least):
        return 1.0
    bend, most, found = _start(family, f, setting, least), 1.0, None
    for _ in range(_TRIALS if bend is not None else 0):
        assert bend is not None
        reached = outcome(family(f, bend), setting)
        if reached.serves(least):
            found = bend
            if reached.directions < _CLOSE * least:
                break
        else:
            most = bend
        bend = _next(bend, reached, setting.width, least)
        if bend >= most:
            bend = math.sqrt(most * (found or 0.5 * most))
        if not _BENDS[0] < bend < _BENDS[1] or (found is not None and bend < 1.05 * found):
            break
    return found


def _start(family: Family, f: Activation, setting: Setting, least: float) -> float | None:
    """Return the bend at which enough directions pass in the limit of infinite width, None if there is none."""

    def excess(log_bend: float) -> float:
        member = family(f, math.exp(log_bend))
        return wide_directions(member, setting.width, setting.depth, weights=setting.weights) - _AIM * least

    low, high = math.log(_BENDS[0]), math.log(_BENDS[1])
    if excess(low) <= 0:
        return None
    return math.exp(
        low if excess(low) <= 0 else high if excess(high) >= 0 else scipy.optimize.brentq(excess, low, high, xtol=0.01)
    )


def _next(bend: float, reached: Outcome, width: int, least: float) -> float:
    """Return a better bend: the relative variance, width / directions - 1, is taken as proportional to its square."""
    if reached.spread > SERVICEABLE:
        return 0.6 * bend
    wanted, had = (
        width / passing - 1 for passing in (min(_AIM * least, 0.99 * width), min(reached.directions, 0.99 * width))
    )
    return bend * min(max(math.sqrt(wanted / had), 0.3), 3.0)


def checked_directions(where: str, directions: object, width: int) -> float:
    """Return how many directions are asked for, or raise if they are not more than 1 and below the width."""
    least = checks.positive(where, "directions", directions)
    if not 1 < least < width:
        raise ValueError(f"{where}: directions must be more than 1 and below the width, got directions={least:g}")
    return least


def leak_for(
    activation: str | Activation,
    width: int,
    depth: int,
    *,
    directions: float = ENOUGH,
    weights: Weights = "orthogonal",
    seed: int = 0,
) -> float:
    """Return the smallest leak s at which enough directions pass and the spread of the walk is serviceable.

    The layers then have the activation s a + (1 - s) f(a), `Activation.leaking(s)`. 0 where none is needed. Found with
    the exact sampler, to about a tenth of 1 - s. Results are cached.

    Args:
        activation: a name such as "relu", or an `Activation`.
        width: units per layer.
        depth: the number of weight layers.
        directions: how many must pass backward.
        weights: "orthogonal", or "gaussian".
        seed: of the samples.

    Returns:
        The leak s, from 0 to 1.

    Raises:
        ValueError: if even a linear network passes too few directions: Gaussian weights in networks deeper than wide;
            if an argument is out of range, or no activation has that name.
        TypeError: if an argument has the wrong type.

    >>> leak_for("tanh", width=24, depth=4), 0.6 < leak_for("relu", width=24, depth=50) < 0.9
    (0.0, True)
    """
    f = activations.activation(activation)
    n = checks.whole("leak_for", "width", width, least=3)
    layers = checks.whole("leak_for", "depth", depth, most=checks.DEEPEST)
    checks.one_of("leak_for", "weights", weights, checks.WEIGHTS)
    bend = bend_for(leaking, f, Setting(n, layers, weights, seed), checked_directions("leak_for", directions, n))
    if bend is None:
        raise ValueError(
            f"leak_for: no leak lets {directions:g} directions pass {depth} layers of {width} units with {weights} "
            "weights; use weights='orthogonal', more units or fewer layers"
        )
    return leak_of(bend)

"""The limit of infinite width for two signals or two gradients: the map of correlations, and how many directions pass.

With c the correlation of the pre-activations of two inputs, of variance q each, that of the next layer is
C(c) = E[f(a) f(b)] / E[f(a)^2]. C(1) = 1 always; the slope there, chi_1 = q E[f'(a)^2] / E[f(a)^2], decides whether
inputs that are close to one another merge (chi_1 < 1) or part (chi_1 > 1). The weights' gain does not matter.
"""

import math

import numpy as np
import scipy

from gradwalk import activations, checks
from gradwalk.activations import Activation, Array
from gradwalk.checks import Weights
from gradwalk.theory.gaussian import nodes

_REACH, _PANELS, _ORDER = 12.0, 24, 16
_DISTINCT = 1 - 1e-4  # a fixed point nearer to 1 is lost in the rounding errors of the map


def correlation_map(activation: str | Activation, correlation: float, q: float = 1.0) -> float:
    """Return the correlation of two inputs' pre-activations one layer up, E[f(a) f(b)] / E[f(a)^2].

    a and b are normal with variance q and the given correlation. Exact for infinite width, computed to about 1e-9.

    Args:
        activation: a name such as "tanh" or "leaky_relu(0.2)", or an `Activation`.
        correlation: of the pre-activations of the two inputs, from -1 to 1.
        q: their variance.

    Returns:
        The correlation one layer up.

    Raises:
        ValueError: if an argument is out of range, or no activation has that name.

    >>> round(correlation_map("linear", 0.3), 9), round(correlation_map("relu", 0.0), 9), round(1 / math.pi, 9)
    (0.3, 0.318309886, 0.318309886)
    """
    f = activations.activation(activation)
    variance = checks.positive("correlation_map", "q", q, checks.LEAST_Q)
    a, weight, _ = nodes(f, variance)
    values = np.asarray(f.f(a))
    given = _given(f, _correlation("correlation_map", correlation), variance, a)
    with np.errstate(over="ignore", invalid="ignore"):  # checked in _ratio
        return _ratio("correlation_map", f, float(weight @ (values * given)), float(weight @ values**2))


def correlation_slope(activation: str | Activation, q: float = 1.0) -> float:
    """Return chi_1, the slope of `correlation_map` at correlation 1: q E[f'(a)^2] / E[f(a)^2].

    Angles between close inputs shrink by its square root per layer if it is below 1. Where the signal is at a fixed
    point of `q_map`, it equals `chi`. relu has 1: the angle shrinks more slowly than exponentially.

    Args:
        activation: a name such as "tanh" or "leaky_relu(0.2)", or an `Activation`.
        q: the variance of the pre-activations.

    Returns:
        The slope.

    Raises:
        ValueError: if an argument is out of range, or no activation has that name.

    >>> round(correlation_slope("relu"), 9)
    1.0
    """
    f = activations.activation(activation)
    variance = checks.positive("correlation_slope", "q", q, checks.LEAST_Q)
    a, weight, _ = nodes(f, variance)
    with np.errstate(over="ignore", invalid="ignore"):  # checked in _ratio
        slope = variance * float(weight @ np.asarray(f.derivative(a)) ** 2)
        return _ratio("correlation_slope", f, slope, float(weight @ np.asarray(f.f(a)) ** 2))


def _ratio(where: str, f: Activation, above: float, below: float) -> float:
    """Return the quotient of two moments, or raise a ValueError where they leave the range of numbers."""
    if not (math.isfinite(above) and 0 < below < math.inf):
        raise ValueError(f"{where}: the moments of {f.name} leave the range of numbers here; try another q or scale")
    return above / below


def correlation_fixed_point(activation: str | Activation, q: float = 1.0) -> float:
    """Return the correlation to which those of all inputs tend: the smallest fixed point of `correlation_map` from 0.

    It is 1 where inputs merge, for relu among others. One within 1e-4 of 1 cannot be told from 1 and is returned as 1.

    Args:
        activation: a name such as "tanh" or "leaky_relu(0.2)", or an `Activation`.
        q: the variance of the pre-activations.

    Returns:
        The correlation, from 0 to 1.

    Raises:
        ValueError: if an argument is out of range, or no activation has that name.

    >>> correlation_fixed_point("relu"), correlation_fixed_point("tanh", q=4.0)
    (1.0, 0.0)
    """
    f = activations.activation(activation)

    def excess(correlation: float) -> float:
        return correlation_map(f, correlation, q) - correlation

    if excess(0.0) < 1e-9:
        return 0.0
    if correlation_slope(f, q) <= 1 + 1e-9 or excess(_DISTINCT) >= 0:
        return 1.0
    return float(scipy.optimize.brentq(excess, 0.0, _DISTINCT, xtol=1e-10))


def sine_drift(width: int) -> float:
    """Return the mean change of ln sin^2 of the angle between two gradients over a linear layer of Gaussian weights.

    digamma((N - 1) / 2) - digamma(N / 2), about -1 / N; exact for any angle and any width from 2.

    >>> round(100 * sine_drift(100), 3)
    -1.015
    """
    n = checks.whole("sine_drift", "width", width, least=2)
    return float(scipy.special.digamma((n - 1) / 2) - scipy.special.digamma(n / 2))


def slope_variance(activation: str | Activation, q: float = 1.0) -> float:
    """Return the variance of f'(a)^2 in units of its squared mean: how unevenly a layer passes its units.

    >>> round(slope_variance("relu"), 9)
    1.0
    """
    f = activations.activation(activation)
    a, weight, _ = nodes(f, checks.positive("slope_variance", "q", q, checks.LEAST_Q))
    squares = np.asarray(f.derivative(a)) ** 2
    return float(weight @ squares**2) / float(weight @ squares) ** 2 - 1


def wide_directions(
    activation: str | Activation, width: int, depth: int, *, weights: Weights = "gaussian", q: float = 1.0
) -> float:
    """Return how many directions pass a network that is much wider than deep: N / (1 + D (v + w)).

    v is `slope_variance`, and w is 1 for Gaussian weights, 0 for orthogonal ones: in the limit of infinite width the
    relative variance of the squared singular values grows by v + w per layer. Too small once the result nears 1.

    >>> round(wide_directions("linear", 100, 4), 9), wide_directions("linear", 100, 4, weights="orthogonal")
    (20.0, 100.0)
    """
    n = checks.whole("wide_directions", "width", width)
    layers = checks.whole("wide_directions", "depth", depth, most=checks.DEEPEST)
    gaussian = checks.one_of("wide_directions", "weights", weights, checks.WEIGHTS) == "gaussian"
    return max(n / (1 + layers * (slope_variance(activation, q) + gaussian)), 1.0)


def nonlinearity(activation: str | Activation, q: float = 1.0) -> float:
    """Return the share of the variance of f(a) that no linear function of a explains: 1 - Cov(a, f)^2 / (q Var f).

    0 for linear, 1 - pi / (2 (pi - 1)) = 0.27 for relu.

    >>> round(nonlinearity("relu"), 3), abs(round(nonlinearity("linear"), 9))
    (0.267, 0.0)
    """
    f = activations.activation(activation)
    variance = checks.positive("nonlinearity", "q", q, checks.LEAST_Q)
    a, weight, _ = nodes(f, variance)
    values = np.asarray(f.f(a))
    mean, covariance = float(weight @ values), float(weight @ (a * values))
    return 1 - covariance**2 / (variance * (float(weight @ values**2) - mean**2))


def _correlation(where: str, value: object) -> float:
    number = checks.number_of(where, "correlation", value)
    if not -1 <= number <= 1:
        raise ValueError(f"{where}: correlation must lie between -1 and 1, got correlation={number!r}")
    return number


def _given(f: Activation, correlation: float, q: float, a: Array) -> Array:
    """Return E[f(b) | a] for b of variance q with that correlation to a; every kink of f is the edge of a panel."""
    sd = math.sqrt(q * max(1 - correlation**2, 0.0))
    if sd == 0:
        return np.asarray(f.f(correlation * a))
    edges = np.broadcast_to(np.linspace(-_REACH, _REACH, _PANELS + 1), (len(a), _PANELS + 1))
    kinks = (np.array(f.kinks)[None, :] - correlation * a[:, None]) / sd
    edges = np.sort(np.concatenate([edges, np.clip(kinks, -_REACH, _REACH)], axis=1), axis=1)
    points, weights = np.polynomial.legendre.leggauss(_ORDER)
    half = np.diff(edges, axis=1)[..., None] / 2
    y = edges[:, :-1, None] + half * (points + 1)
    density = np.exp(-0.5 * y**2) / math.sqrt(2 * math.pi)
    return np.asarray((half * weights * density * f.f(correlation * a[:, None, None] + sd * y)).sum(axis=(1, 2)))

"""The limit of infinite width: how the variance of the signal changes from layer to layer, and the kinds of activation.

With q the variance of the pre-activations of a layer and x standard normal, those of the next layer have variance
g^2 V(q), where V(q) = E[f(sqrt(q) x)^2]; backwards, |delta|^2 grows by chi = g^2 E[f'(sqrt(q) x)^2] per layer.

Expectations are computed by quadrature to about 1e-12, for q up to 1e8.
"""

from functools import lru_cache
from typing import Literal

import numpy as np
import scipy

from gradwalk import activations, checks
from gradwalk.activations import Activation, Array
from gradwalk.theory.gaussian import few_nodes, nodes

Kind = Literal["neutral", "steady", "unsteady"]

_KIND_RANGE = np.geomspace(1e-4, 1e4, 33)
_NEUTRAL = 1e-9  # quadrature gives the elasticity of a homogeneous f, 1, to about 1e-13

# Of built-in activations, most of which load scipy.special when they are evaluated.
_NAMES: dict[Kind, str] = {
    "neutral": "linear relu leaky_relu(0.01)",
    "steady": "relu6 tanh sigmoid hard_sigmoid log_sigmoid softplus elu celu selu erf softsign hard_tanh sin",
    "unsteady": "gelu silu hard_swish mish",
}
KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}


def q_map(activation: str | Activation, q: float, gain: float = 1.0) -> float:
    """Return the variance of the next layer's pre-activations, g^2 E[f(sqrt(q) x)^2], x standard normal.

    Args:
        activation: a name such as "tanh" or "leaky_relu(0.2)", or an `Activation`.
        q: the variance of this layer's pre-activations.
        gain: the factor g on the weights.

    Returns:
        The variance, exact for infinite width.

    Raises:
        ValueError: if an argument is out of range, or no activation has that name.

    >>> round(q_map("relu", 2.0), 12)
    1.0
    """
    g = checks.positive("q_map", "gain", gain, *checks.GAIN_RANGE)
    return g**2 * _moments(activations.activation(activation), checks.positive("q_map", "q", q, checks.LEAST_Q))[0]


def chi(activation: str | Activation, q: float, gain: float = 1.0) -> float:
    """Return the expected growth of |delta|^2 over one layer, g^2 E[f'(sqrt(q) x)^2], x standard normal.

    Args:
        activation: a name such as "tanh" or "leaky_relu(0.2)", or an `Activation`.
        q: the variance of the pre-activations.
        gain: the factor g on the weights.

    Returns:
        The expectation of g^2 z at any width, if the pre-activations are independent of the weights. At gain 1, ln chi
        is the limit of the drift ⟨ln z⟩ for infinite width.

    Raises:
        ValueError: if an argument is out of range, or no activation has that name.

    >>> round(chi("relu", 1.0, gain=2**0.5), 12)
    1.0
    """
    g = checks.positive("chi", "gain", gain, *checks.GAIN_RANGE)
    return g**2 * _moments(activations.activation(activation), checks.positive("chi", "q", q, checks.LEAST_Q))[1]


def elasticity(activation: str | Activation, q: float) -> float:
    """Return kappa = d ln V / d ln q, the local exponent of V(q) = E[f(sqrt(q) x)^2].

    Computed as E[a f(a) f'(a)] / E[f(a)^2] for a ~ N(0, q), without finite differences.

    Args:
        activation: a name such as "tanh" or "leaky_relu(0.2)", or an `Activation`.
        q: the variance of the pre-activations.

    Returns:
        1 for a homogeneous f such as relu; below 1, fluctuations of the signal's variance shrink from layer to layer,
        above 1 they grow.

    Raises:
        ValueError: if an argument is out of range, or no activation has that name.

    >>> round(elasticity("linear", 3.0), 12)
    1.0
    """
    at = checks.positive("elasticity", "q", q, checks.LEAST_Q)
    variance, _, response = _moments(activations.activation(activation), at)
    return response / variance


def fixed_point(activation: str | Activation, gain: float) -> float:
    """Return the fixed point q > 0 of the variance map at that gain: q = g^2 E[f(sqrt(q) x)^2].

    Args:
        activation: a name such as "tanh" or "leaky_relu(0.2)", or an `Activation`.
        gain: the factor g on the weights.

    Returns:
        The smallest fixed point between 1e-6 and 1e6.

    Raises:
        ValueError: if there is none: for neutral activations, for which either no q or every q is a fixed point, and
            for the others at gains that are too small or too large.

    >>> q = fixed_point("tanh", 1.5); abs(q_map("tanh", q, 1.5) - q) < 1e-9
    True
    """
    f = activations.activation(activation)
    g = checks.positive("fixed_point", "gain", gain, *checks.GAIN_RANGE)
    if kind(f) == "neutral":
        raise ValueError(f"fixed_point: {f} scales every variance by the same factor and has no isolated fixed point")

    def excess(log_q: float) -> float:
        return float(np.log(q_map(f, np.exp(log_q), g)) - log_q)

    grid = np.linspace(np.log(1e-6), np.log(1e6), 97)
    signs = np.sign([excess(u) for u in grid])
    turns = np.flatnonzero(signs[:-1] * signs[1:] <= 0)
    if len(turns) == 0:
        raise ValueError(f"fixed_point: {f} has no fixed point between 1e-6 and 1e6 at gain={g:g}; choose another gain")
    return float(np.exp(scipy.optimize.brentq(excess, grid[turns[0]], grid[turns[0] + 1], xtol=1e-13)))


def kind(activation: str | Activation) -> Kind:
    """Return "neutral", "steady" or "unsteady", by the elasticity kappa at q from 1e-4 to 1e4.

    Args:
        activation: a name such as "tanh" or "leaky_relu(0.2)", or an `Activation`.

    Returns:
        "neutral" if kappa = 1 everywhere: the step does not depend on q, and one gain serves every depth. "steady" if
        kappa <= 1 everywhere: fluctuations of the signal's variance die out, and the unbiased gain depends on depth.
        "unsteady" if kappa > 1 somewhere: there fluctuations grow with depth, and no gain serves a deep network.

    Raises:
        ValueError: if no activation has that name.

    >>> [kind(name) for name in ("relu", "tanh", "gelu")]
    ['neutral', 'steady', 'unsteady']
    """
    return _kind(activations.activation(activation))


@lru_cache(maxsize=64)
def _kind(activation: Activation) -> Kind:
    known = KINDS.get(activation.name)
    return known if known is not None and activations.is_built_in(activation) else computed_kind(activation)


def computed_kind(activation: Activation) -> Kind:
    """Return the kind of an activation, computed, whether or not it is known."""
    kappa = np.array([_elasticity(activation, float(q), *few_nodes(activation, float(q))) for q in _KIND_RANGE])
    if np.all(np.abs(kappa - 1) < _NEUTRAL):
        return "neutral"
    return "unsteady" if np.any(kappa > 1 + _NEUTRAL) else "steady"


def _elasticity(activation: Activation, q: float, x: Array, weight: Array) -> float:
    """Return the elasticity on these nodes; exactly 1 for a homogeneous f, whatever the nodes."""
    a = np.sqrt(q) * x
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        f, slope = np.asarray(activation.f(a)), np.asarray(activation.derivative(a))
        variance, response = float(weight @ f**2), float(weight @ (a * f * slope))
    return response / _usable(activation, q, variance, response)


def _usable(activation: Activation, q: float, *moments: float) -> float:
    """Return the first moment if all are finite and it is positive."""
    if not np.all(np.isfinite(moments)) or moments[0] <= 0:
        raise ValueError(f"quadrature: f of {activation} must be finite and not zero everywhere, but is not at q={q:g}")
    return moments[0]


def _moments(activation: Activation, q: float) -> tuple[float, float, float]:
    """Return E[f^2], E[f'^2] and E[a f f'] over a ~ N(0, q)."""
    a, weight, _ = nodes(activation, q)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # the result shows what is not finite
        f, slope = np.asarray(activation.f(a)), np.asarray(activation.derivative(a))
        moments = float(weight @ f**2), float(weight @ slope**2), float(weight @ (a * f * slope))
    _usable(activation, q, *moments)
    return moments

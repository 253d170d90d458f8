"""The limit of infinite width: how the variance of the signal maps from layer to layer, and its kind.

With q the variance of the pre-activations of a layer and x standard normal, those of the next have variance
g^2 V(q), where V(q) = E[f(sqrt(q) x)^2]; the gradient grows by chi = g^2 E[f'(sqrt(q) x)^2] on its way back.
"""

from functools import lru_cache

import numpy as np
from scipy import optimize

from gradwalk import activations, checks
from gradwalk.activations import Activation
from gradwalk.theory.gaussian import nodes

_KIND_RANGE = np.geomspace(1e-4, 1e4, 33)
_NEUTRAL = 1e-9  # quadrature gives the elasticity of an exactly homogeneous f to about 1e-13


def q_map(activation: str | Activation, q: float, gain: float = 1.0) -> float:
    """Return the variance of the next layer's pre-activations, g^2 E[f(sqrt(q) x)^2].

    >>> round(q_map("relu", 2.0), 12)
    1.0
    """
    g = checks.positive("q_map", "gain", gain)
    return g**2 * _moments(activations.activation(activation), checks.positive("q_map", "q", q))[0]


def chi(activation: str | Activation, q: float, gain: float = 1.0) -> float:
    """Return the mean growth of the squared gradient norm over a layer, g^2 E[f'(sqrt(q) x)^2].

    >>> round(chi("relu", 1.0, gain=2**0.5), 12)
    1.0
    """
    g = checks.positive("chi", "gain", gain)
    return g**2 * _moments(activations.activation(activation), checks.positive("chi", "q", q))[1]


def elasticity(activation: str | Activation, q: float) -> float:
    """Return kappa = d ln V / d ln q: by what power of q the variance of the signal responds.

    By Stein's identity it is E[a f(a) f'(a)] / E[f(a)^2] for a ~ N(0, q), so no difference is taken.

    >>> round(elasticity("linear", 3.0), 12)
    1.0
    """
    variance, _, response = _moments(activations.activation(activation), checks.positive("elasticity", "q", q))
    return response / variance


def fixed_point(activation: str | Activation, gain: float) -> float:
    """Return the variance q > 0 that a layer of that gain hands on unchanged: q = g^2 V(q).

    Where there are several, the least. Neutral activations have none, or every q; many others none at
    gains too small or too large, and that is told as a ValueError.

    >>> q = fixed_point("tanh", 1.5); abs(q_map("tanh", q, 1.5) - q) < 1e-9
    True
    """
    f = activations.activation(activation)
    g = checks.positive("fixed_point", "gain", gain)
    if kind(f) == "neutral":
        raise ValueError(f"fixed_point: {f} hands every variance on alike and has no fixed point of its own")

    def excess(log_q: float) -> float:
        return float(np.log(q_map(f, np.exp(log_q), g)) - log_q)

    grid = np.linspace(np.log(1e-6), np.log(1e6), 97)
    signs = np.sign([excess(u) for u in grid])
    turns = np.flatnonzero(signs[:-1] * signs[1:] <= 0)
    if len(turns) == 0:
        raise ValueError(f"fixed_point: {f} has no fixed point between 1e-6 and 1e6 at gain={g:g}")
    return float(np.exp(optimize.brentq(excess, grid[turns[0]], grid[turns[0] + 1], xtol=1e-13)))


def kind(activation: str | Activation) -> str:
    """Return "neutral", "steady" or "unsteady", by the elasticity over q from 1e-4 to 1e4.

    neutral: kappa is 1 everywhere, the step does not depend on q; steady: kappa is nowhere above 1, so that
    fluctuations of the signal die out; unsteady: somewhere kappa > 1, and there they grow with depth.

    >>> [kind(name) for name in ("relu", "tanh", "gelu")]
    ['neutral', 'steady', 'unsteady']
    """
    return _kind(activations.activation(activation))


@lru_cache(maxsize=64)
def _kind(activation: Activation) -> str:
    response = np.array([elasticity(activation, float(q)) for q in _KIND_RANGE])
    if np.all(np.abs(response - 1) < _NEUTRAL):
        return "neutral"
    return "unsteady" if np.any(response > 1 + _NEUTRAL) else "steady"


def _moments(activation: Activation, q: float) -> tuple[float, float, float]:
    """Return E[f^2], E[f'^2] and E[a f f'] over a ~ N(0, q)."""
    a, weight, _ = nodes(activation, q)
    f, slope = np.asarray(activation.f(a)), np.asarray(activation.derivative(a))
    moments = float(weight @ f**2), float(weight @ slope**2), float(weight @ (a * f * slope))
    if not np.all(np.isfinite(moments)) or moments[0] <= 0:
        raise ValueError(f"{activation}: f is zero or not finite for pre-activations of variance q={q:g}")
    return moments

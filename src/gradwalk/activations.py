"""The activations: f, its derivative, and the places where it has a kink.

f is taken as it is. The paper normalises f'(0) = 1; here the gain absorbs the slope instead, so that
`gain("sigmoid", ...)` is the number to put on the weights of a network that uses the plain sigmoid.
Divide by f'(0) to compare with a gain in the paper's normalisation: `gain * f.derivative(0.0)`.
"""

import difflib
import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.floating[Any]]
Indices = NDArray[np.integer[Any]]
Function = Callable[[Any], Any]

SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


@dataclass(frozen=True)
class Activation:
    """An element-wise nonlinearity: `f`, its `derivative`, and the `kinks`, where the derivative jumps.

    Both functions take and return NumPy arrays. Quadrature splits its range at the kinks, so name them all.

    >>> Activation("cube", lambda a: a**3, lambda a: 3 * a**2).derivative(np.array([2.0]))
    array([12.])
    """

    name: str
    f: Function
    derivative: Function
    kinks: tuple[float, ...] = ()

    def __str__(self) -> str:
        return self.name

    def scaled(self, scale: float) -> "Activation":
        """Return f_s(a) = f(s a) / s, which for a large s is nearly homogeneous, with the slope of f kept.

        >>> activation("gelu").scaled(100.0).f(np.array([1.0, -1.0]))
        array([ 1., -0.])
        """
        if not 0.0 < scale < np.inf:
            raise ValueError(f"scaled: scale must be positive and finite, got scale={scale!r}")
        return _scaled(self, scale)


@lru_cache(maxsize=64)  # one object again, see below
def _scaled(inner: Activation, scale: float) -> Activation:
    return Activation(
        f"{inner.name}*{scale:g}",
        lambda a: inner.f(scale * a) / scale,
        lambda a: inner.derivative(scale * a),
        tuple(kink / scale for kink in inner.kinks),
    )


def _is_positive(a: Array) -> Array:
    a = np.asarray(a)
    return (a > 0).astype(a.dtype)


def _sech_squared(a: Array) -> Array:
    tail = np.exp(-2.0 * np.abs(a))  # no overflow, and no underflow where 1 - tanh(a)**2 already is 0
    return 4.0 * tail / (1.0 + tail) ** 2


def _leaky_relu(slope: float = 0.01) -> Activation:
    return Activation(
        f"leaky_relu({slope:g})",
        lambda a: np.where(a > 0, a, slope * a),
        lambda a: slope + (1 - slope) * _is_positive(a),
        (0.0,),
    )


def _elu(alpha: float = 1.0) -> Activation:
    return Activation(
        f"elu({alpha:g})" if alpha != 1.0 else "elu",
        lambda a: np.where(a > 0, a, alpha * np.expm1(np.minimum(a, 0))),
        lambda a: np.where(a > 0, 1.0, alpha * np.exp(np.minimum(a, 0))),
        (0.0,),
    )


def _selu() -> Activation:
    elu = _elu(SELU_ALPHA)
    return Activation("selu", lambda a: SELU_SCALE * elu.f(a), lambda a: SELU_SCALE * elu.derivative(a), (0.0,))


def _softplus(beta: float = 1.0) -> Activation:
    return Activation(
        f"softplus({beta:g})" if beta != 1.0 else "softplus",
        lambda a: np.logaddexp(0.0, beta * a) / beta,
        lambda a: special.expit(beta * a),
    )


def _sigmoid() -> Activation:
    return Activation("sigmoid", special.expit, lambda a: special.expit(a) * special.expit(-a))


def _gelu() -> Activation:
    def density(a: Array) -> Array:
        return np.exp(-0.5 * a * a) / math.sqrt(2 * math.pi)

    return Activation("gelu", lambda a: a * special.ndtr(a), lambda a: special.ndtr(a) + a * density(a))


def _silu() -> Activation:
    def derivative(a: Array) -> Array:
        rise = special.expit(a)
        return np.asarray(rise * (1 + a * special.expit(-a)))

    return Activation("silu", lambda a: a * special.expit(a), derivative)


def _mish() -> Activation:
    softplus = _softplus()

    def derivative(a: Array) -> Array:
        bend = softplus.f(a)
        return np.asarray(np.tanh(bend) + a * _sech_squared(bend) * special.expit(a))

    return Activation("mish", lambda a: a * np.tanh(softplus.f(a)), derivative)


def _erf() -> Activation:
    return Activation("erf", special.erf, lambda a: 2 / math.sqrt(math.pi) * np.exp(-a * a))


def _hard_tanh() -> Activation:
    return Activation("hard_tanh", lambda a: np.clip(a, -1, 1), lambda a: _is_positive(1 - np.abs(a)), (-1.0, 1.0))


def _softsign() -> Activation:
    return Activation("softsign", lambda a: a / (1 + np.abs(a)), lambda a: (1 + np.abs(a)) ** -2, (0.0,))


_FAMILIES: dict[str, Callable[..., Activation]] = {
    "linear": lambda: Activation("linear", lambda a: a, np.ones_like),
    "relu": lambda: Activation("relu", lambda a: np.maximum(a, 0), lambda a: _is_positive(a), (0.0,)),
    "leaky_relu": _leaky_relu,
    "tanh": lambda: Activation("tanh", np.tanh, _sech_squared),
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "elu": _elu,
    "selu": _selu,
    "gelu": _gelu,
    "silu": _silu,
    "mish": _mish,
    "erf": _erf,
    "softsign": _softsign,
    "hard_tanh": _hard_tanh,
    "sin": lambda: Activation("sin", np.sin, np.cos),
}

# Names of torch, JAX and Keras; case, spaces, "_" and "-" do not count, so LeakyReLU is leaky_relu already.
_ALIASES = {"identity": "linear", "none": "linear", "swish": "silu", "sine": "sin", "logistic": "sigmoid"}
_REGISTERED: dict[str, Activation] = {}


def activation(name: str | Activation) -> Activation:
    """Return the activation of that name; "leaky_relu(0.2)" carries its parameter; an Activation comes back.

    "gelu*100" is gelu scaled, as `Activation.scaled(100)` gives it.

    >>> activation("LeakyReLU(0.2)").name, activation("gelu*100").name
    ('leaky_relu(0.2)', 'gelu*100')
    """
    if isinstance(name, Activation):
        return name
    if not isinstance(name, str):
        raise TypeError(f"activation: a name or an Activation is needed, got {name!r}")
    inner, _, scale = name.rpartition("*")
    if inner and _plain(name) not in _REGISTERED:
        return activation(inner).scaled(_number(name, scale))
    return _REGISTERED.get(_plain(name)) or _built_in(name)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"activation: a scale is written as in gelu*100, got {name!r}") from None


@lru_cache(maxsize=512)  # one object a name, so that what was computed of it is found again
def _built_in(name: str) -> Activation:
    match = re.fullmatch(r"\s*([^()]+?)\s*(?:\(([^()]*)\))?\s*", name)
    if match is None:
        raise ValueError(f'activation: write a name or name(parameter) such as "leaky_relu(0.2)", got {name!r}')
    known = {_plain(each): each for each in _FAMILIES} | {_plain(k): v for k, v in _ALIASES.items()}
    if _plain(match[1]) not in known:
        raise ValueError(_unknown(name, [*_FAMILIES, *_ALIASES, *(a.name for a in _REGISTERED.values())]))
    return _built(known[_plain(match[1])], match[2])


def names() -> list[str]:
    """Return the names of all activations, those that the user registered last."""
    return [*_FAMILIES, *(each.name for each in _REGISTERED.values())]


def register(
    name: str, f: Function, derivative: Function | None = None, *, kinks: tuple[float, ...] = ()
) -> Activation:
    """Make an activation known by name, and return it; without a derivative, complex steps through `f` find it.

    The derivative, given or found, is compared with finite differences of `f`, so that a slip is told at once.

    >>> register("bent", lambda a: (np.sqrt(a**2 + 1) - 1) / 2 + a).derivative(np.array([0.0]))
    array([1.])
    """
    plain = _plain(name)
    taken = {_plain(each) for each in (*_FAMILIES, *_ALIASES)}
    if not plain or "(" in name or plain in taken:
        raise ValueError(f"register: name must be new and without parentheses, got name={name!r}")
    new = Activation(name, f, derivative or _complex_step(f), tuple(float(kink) for kink in kinks))
    _check_derivative(new)
    _REGISTERED[plain] = new
    return new


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(set(known)))}"
    return f"activation: unknown activation {name!r}; {hint}"


@lru_cache(maxsize=512)  # and one for all spellings of it
def _built(family: str, parameter: str | None) -> Activation:
    build = _FAMILIES[family]
    if not parameter:
        return build()
    if not inspect.signature(build).parameters:
        raise ValueError(f"activation: {family} takes no parameter, got {family}({parameter})")
    text = parameter.rpartition("=")[2]  # torch prints LeakyReLU(negative_slope=0.2)
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"activation: the parameter of {family} must be a number, got {parameter!r}") from None
    if not np.isfinite(value) or (family != "leaky_relu" and value <= 0):
        raise ValueError(f"activation: the parameter of {family} must be positive and finite, got {value!r}")
    return build(value)


def _complex_step(f: Function) -> Function:
    step = 1e-20

    def derivative(a: Array) -> Array:
        return np.asarray(f(a + 1j * step)).imag / step

    return derivative


def _check_derivative(new: Activation) -> None:
    points = np.array([a for a in np.linspace(-3.03, 3.07, 41) if all(abs(a - k) > 1e-3 for k in new.kinks)])
    step = 1e-5
    try:
        measured = (np.asarray(new.f(points + step)) - np.asarray(new.f(points - step))) / (2 * step)
        claimed = np.asarray(new.derivative(points))
    except Exception as error:
        raise ValueError(f"register: {new.name!r} cannot be evaluated on an array: {error}") from error
    if measured.shape != points.shape or claimed.shape != points.shape:
        raise ValueError(f"register: f and derivative of {new.name!r} must return one value for each they get")
    off = ~(np.abs(measured - claimed) <= 1e-5 * (1 + np.abs(measured)))  # NaN counts as off
    if off.any():
        a = points[off][0]
        raise ValueError(
            f"register: the derivative of {new.name!r} is {claimed[off][0]:g} at a={a:g} where f changes at "
            f"{measured[off][0]:g}; give derivative= and name the kinks"
        )

"""The record of one activation: a pair of NumPy functions and the points where the derivative jumps."""

import hashlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwalk import checks

Array = NDArray[np.floating[Any]]
Indices = NDArray[np.integer[Any]]
Function = Callable[[Any], Any]

_PROBES = np.concatenate([np.linspace(-6.03, 6.07, 122), [-100.0, -20.0, -1e-3, 1e-3, 20.0, 100.0]])
_MOST_CHANGES = 8
_MOST_KINKS = 1000


@dataclass(frozen=True)
class Activation:
    """An element-wise nonlinearity.

    Both functions take and return NumPy arrays. All fields after `kinks` are left out for an activation of your own:
    they say which record built the activation (see `Family`), or what `scaled` or `leaking` was called with.

    Attributes:
        name: what it is called in tables and errors.
        f: the function.
        derivative: its derivative.
        kinks: where the derivative jumps; quadrature splits its range there, so all of them must be listed.
        family: the name of the record, without its parameter.
        parameter: the number in parentheses, if there is one.
        inner: the activation that was scaled or has the leak, if any.
        scale: the factor s of f(s a) / s.
        leak: the share s of s a + (1 - s) f(a).
        slope_given: the derivative as a function of a and f(a), where that takes less time than as one of a alone; to
            rounding errors of the size of those of f(a).
        leaked: returns what `leaking` does, where that has a name of its own, as the leak of relu has.

    >>> Activation("cube", lambda a: a**3, lambda a: 3 * a**2).derivative(np.array([2.0]))
    array([12.])
    """

    name: str
    f: Function
    derivative: Function
    kinks: tuple[float, ...] = ()
    family: str = ""
    parameter: float | None = None
    inner: "Activation | None" = None
    scale: float = 1.0
    leak: float = 0.0
    slope_given: Callable[[Any, Any], Any] | None = field(default=None, repr=False)
    leaked: "Callable[[float], Activation] | None" = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raise in one sentence if a field is not what it must be: numbers and functions are used only much later."""
        if not isinstance(self.name, str) or not self.name.isprintable():
            raise TypeError(f"Activation: name must be a line of text, got name={self.name!r}")
        for what, function in (("f", self.f), ("derivative", self.derivative)):
            if not callable(function):
                raise TypeError(f"Activation: {what} must be a function, got {what}={function!r}")
        object.__setattr__(self, "kinks", _points(self.kinks))

    def __hash__(self) -> int:
        return hash((self.name, self.f))  # two of the fields are enough, and it is computed often

    def __str__(self) -> str:
        return self.name

    def scaled(self, scale: float) -> "Activation":
        """Return f_s(a) = f(s a) / s, which has the slope of f at 0 and is nearly homogeneous for a large scale s.

        >>> from gradwalk import activation
        >>> activation("gelu").scaled(100.0).f(np.array([1.0, -1.0]))
        array([ 1., -0.])
        """
        factor = checks.positive("scaled", "scale", scale, *checks.GAIN_RANGE)
        _check_nesting("scaled", self)
        return _scaled(self, factor)

    def leaking(self, leak: float) -> "Activation":
        """Return f_s(a) = s a + (1 - s) f(a), which lets the share s of the signal pass unchanged; s is the leak.

        From 0, which is f itself, to below 1. Deep networks keep more directions of their inputs and gradients with
        it. That of relu is leaky_relu(s); a leak of a leak is one leak.

        >>> from gradwalk import activation
        >>> activation("gelu").leaking(0.8).f(np.array([1.0, -1.0]))
        array([ 0.96826895, -0.83173105])
        >>> activation("relu").leaking(0.8).name, activation("gelu").leaking(0.8).name
        ('leaky_relu(0.8)', 'gelu@0.8')
        """
        share = checks.rate("leaking", "leak", leak)
        if share == 0:
            return self
        if self.leaked is not None:
            return self.leaked(share)
        _check_nesting("leaking", self)
        return _leaking(self, share)

    def values_digest(self) -> str:
        """Return a digest of what the activation computes: of f, f' and the kinks, at points from -100 to 100.

        Two activations of one name differ in it. It is the same on machines that round differently in the last digits.
        """
        inner = _PROBES[np.all(np.abs(_PROBES[:, None] - np.array([*self.kinks, np.inf])) > 1e-9, axis=1)]
        with np.errstate(all="ignore"):
            numbers = [*np.ravel(self.f(inner)), *np.ravel(self.derivative(inner)), *self.kinks]
        text = " ".join(f"{float(number):.9e}" for number in numbers)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _points(kinks: Iterable[float]) -> tuple[float, ...]:
    try:
        points = tuple(float(kink) for kink in islice(kinks, _MOST_KINKS + 1))
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"Activation: kinks must be numbers, got kinks={checks.shown(kinks)}") from None
    if len(points) > _MOST_KINKS:
        raise ValueError(f"Activation: there can be at most {_MOST_KINKS:,} kinks, got more")
    if not all(map(math.isfinite, points)):
        raise ValueError(f"Activation: kinks must be finite, got kinks={points}")
    return points


def _nesting(activation: Activation) -> int:
    return 0 if activation.inner is None else 1 + _nesting(activation.inner)


def _check_nesting(where: str, activation: Activation) -> None:
    if _nesting(activation) >= _MOST_CHANGES:
        raise ValueError(
            f"{where}: an activation can be scaled and leaked {_MOST_CHANGES} times at most; multiply the scales"
        )


@lru_cache(maxsize=512)  # one object per scale, because results are cached per object
def _scaled(inner: Activation, scale: float) -> Activation:
    given = inner.slope_given
    return Activation(
        f"{inner.name}*{written(scale)}",
        lambda a: inner.f(scale * a) / scale,
        lambda a: inner.derivative(scale * a),
        tuple(kink / scale for kink in inner.kinks),
        inner=inner,
        scale=scale,
        slope_given=None if given is None else lambda a, h: given(scale * a, scale * h),
    )


@lru_cache(maxsize=512)
def _leaking(inner: Activation, leak: float) -> Activation:
    def f(a: Any) -> Any:
        return leak * a + (1 - leak) * inner.f(a)

    def derivative(a: Any) -> Any:
        return leak + (1 - leak) * inner.derivative(a)

    def leaked(more: float) -> Activation:
        return inner.leaking(leak + more - leak * more)

    name = f"{inner.name}@{written(leak)}"
    return Activation(name, f, derivative, inner.kinks, inner=inner, leak=leak, leaked=leaked)


def written(number: float) -> str:
    """Return the shortest text that reads back as the same number: 0.2, 1e-05, but 2 rather than 2.0."""
    return repr(float(number)).removesuffix(".0")

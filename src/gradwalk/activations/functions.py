"""The record of one activation: a pair of NumPy functions and the points where the derivative jumps."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Indices = NDArray[np.integer[Any]]
Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Activation:
    """An element-wise nonlinearity: `f`, its `derivative`, and the `kinks`, where the derivative jumps.

    Both functions take and return NumPy arrays. Quadrature splits its range at the kinks, so all of them must be
    listed. `family` and `parameter` identify the record that built the activation (see `Family`), `inner` and `scale`
    what `scaled` was called with; all four are left out for an activation of your own.

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
        if not 0.0 < scale < np.inf:
            raise ValueError(f"scaled: scale must be positive and finite, got scale={scale!r}")
        return _scaled(self, float(scale))


@lru_cache(maxsize=64)  # one object per scale, because results are cached per object
def _scaled(inner: Activation, scale: float) -> Activation:
    return Activation(
        f"{inner.name}*{written(scale)}",
        lambda a: inner.f(scale * a) / scale,
        lambda a: inner.derivative(scale * a),
        tuple(kink / scale for kink in inner.kinks),
        inner=inner,
        scale=scale,
    )


def written(number: float) -> str:
    """Return the shortest text that reads back as the same number: 0.2, 1e-05, but 2 rather than 2.0."""
    return repr(float(number)).removesuffix(".0")

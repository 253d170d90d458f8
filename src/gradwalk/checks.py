"""What every public function asks of its arguments, said in one form: `gain: width must be ..., got width=0`."""

import math
import operator
from collections.abc import Sequence
from numbers import Real

import numpy as np

WIDEST = 10_000_000  # one layer of one walk then still fits the memory that simulate allows itself
DEEPEST = 10_000_000
GAIN_RANGE = (1e-9, 1e9)  # past this the signal of a single layer leaves single precision
WEIGHTS = ("gaussian", "orthogonal")


def whole(where: str, name: str, value: object, least: int = 1, most: int = WIDEST) -> int:
    """Return `value` as an int between `least` and `most`, or say what is wrong with it."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{where}: {name} must be a whole number, got {name}={value!r}") from None
    if isinstance(value, bool):
        raise TypeError(f"{where}: {name} must be a whole number, got {name}={value!r}")
    if number < least:
        raise ValueError(f"{where}: {name} must be at least {least}, got {name}={number}")
    if number > most:
        raise ValueError(f"{where}: {name} must be at most {most:,}, got {name}={number}")
    return number


def positive(where: str, name: str, value: object, least: float = 0.0, most: float = math.inf) -> float:
    """Return `value` as a finite float above 0 and between `least` and `most`, or say what is wrong with it."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{where}: {name} must be a number, got {name}={value!r}")
    number = float(value)
    if not 0.0 < number < math.inf:
        raise ValueError(f"{where}: {name} must be positive and finite, got {name}={number!r}")
    if not least <= number <= most:
        raise ValueError(f"{where}: {name} must lie between {least:g} and {most:g}, got {name}={number!r}")
    return number


def one_of(where: str, name: str, value: object, choices: Sequence[str]) -> str:
    """Return `value` if it is one of `choices`, or say which there are."""
    if isinstance(value, str) and value in choices:
        return value
    listed = " or ".join(f'"{choice}"' for choice in choices)
    raise ValueError(f"{where}: {name} must be {listed}, got {name}={value!r}")


def widths(where: str, width: int | Sequence[int], depth: int | None) -> tuple[int, ...]:
    """Return the depth + 1 widths of a network, input first, from one width or from all of them."""
    if isinstance(width, str):
        raise TypeError(f"{where}: width must be a whole number or a sequence of them, got width={width!r}")
    if not isinstance(width, Sequence | np.ndarray):
        if depth is None:
            raise ValueError(f"{where}: depth is missing; pass depth= or the depth + 1 widths of the layers")
        return (whole(where, "width", width),) * (whole(where, "depth", depth, most=DEEPEST) + 1)
    layers = tuple(whole(where, "width", each) for each in width)
    if len(layers) < 2:
        raise ValueError(f"{where}: width must name at least 2 layers, input first, got width={list(layers)}")
    if depth is not None and whole(where, "depth", depth, most=DEEPEST) != len(layers) - 1:
        raise ValueError(f"{where}: width must name depth + 1 layers, got {len(layers)} widths for depth={depth}")
    return layers

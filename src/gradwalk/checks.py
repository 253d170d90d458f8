"""Validation of arguments, with error messages of one form: `gain: width must be at least 1, got width=0`."""

import math
import operator
from collections.abc import Sequence
from numbers import Real
from typing import Literal, TypeVar, get_args

import numpy as np

Weights = Literal["gaussian", "orthogonal"]
Formula = Literal["exact", "paper"]
Choice = TypeVar("Choice", bound=str)

WEIGHTS: tuple[Weights, ...] = get_args(Weights)
FORMULAS: tuple[Formula, ...] = get_args(Formula)

WIDEST = 10_000_000  # the widest layer that simulate() can hold in memory
DEEPEST = 10_000_000
GAIN_RANGE = (1e-9, 1e9)  # outside it, the signal of a single layer leaves single precision


def whole(where: str, name: str, value: object, least: int = 1, most: int = WIDEST) -> int:
    """Return `value` as an int, or raise if it is not a whole number from `least` to `most`."""
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
    """Return `value` as a float, or raise if it is not positive, finite and between `least` and `most`."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{where}: {name} must be a number, got {name}={value!r}")
    number = float(value)
    if not 0.0 < number < math.inf:
        raise ValueError(f"{where}: {name} must be positive and finite, got {name}={number!r}")
    if not least <= number <= most:
        raise ValueError(f"{where}: {name} must lie between {least:g} and {most:g}, got {name}={number!r}")
    return number


def rate(where: str, name: str, value: object) -> float:
    """Return a rate of dropout as a float, or raise if it is not at least 0 and below 1."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < 1:
        raise ValueError(f"{where}: {name} must be at least 0 and below 1, got {name}={value!r}")
    return float(value)


def one_of(where: str, name: str, value: object, choices: Sequence[Choice]) -> Choice:
    """Return the one of `choices` that equals `value`, or raise with a list of them."""
    for choice in choices:
        if isinstance(value, str) and value == choice:
            return choice
    listed = " or ".join(f'"{choice}"' for choice in choices)
    raise ValueError(f"{where}: {name} must be {listed}, got {name}={value!r}")


def widths(where: str, width: int | Sequence[int], depth: int | None) -> tuple[int, ...]:
    """Return the depth + 1 widths of a network, input first, given one width and a depth or all the widths."""
    if isinstance(width, str):
        raise TypeError(f"{where}: width must be a whole number or a sequence of them, got width={width!r}")
    if not isinstance(width, Sequence | np.ndarray):
        if depth is None:
            raise ValueError(f"{where}: depth is missing; pass depth= or the depth + 1 widths of the layers")
        return (whole(where, "width", width),) * (whole(where, "depth", depth, most=DEEPEST) + 1)
    layers = tuple(whole(where, "width", n) for n in width)
    if len(layers) < 2:
        raise ValueError(f"{where}: width must list at least 2 layers, input first, got width={list(layers)}")
    if depth is not None and whole(where, "depth", depth, most=DEEPEST) != len(layers) - 1:
        raise ValueError(f"{where}: width must list depth + 1 layers, got {len(layers)} widths for depth={depth}")
    return layers

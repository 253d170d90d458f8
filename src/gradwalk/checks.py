"""Validation of arguments, with error messages of one form: `gain: width must be at least 1, got width=0`."""

import math
import operator
import sys
from collections.abc import Sequence
from numbers import Real
from typing import Any, Literal, TypeGuard, TypeVar, get_args

import numpy as np

Weights = Literal["gaussian", "orthogonal"]
Formula = Literal["exact", "paper"]
Choice = TypeVar("Choice", bound=str)
_LONGEST = 200  # characters of a value in a message

WEIGHTS: tuple[Weights, ...] = get_args(Weights)
FORMULAS: tuple[Formula, ...] = get_args(Formula)

WIDEST = 10_000_000  # the widest layer that simulate() can hold in memory
DEEPEST = 10_000_000
MOST_WIDTHS = 1000  # different ones in one network: each needs a quadrature of its own
SPREAD_RANGE = (1e-6, 1e6)  # of the final log-norm
LEAST_Q = 1e-250  # of the variance of pre-activations; below it, squares underflow
GAIN_RANGE = (1e-9, 1e9)  # outside it, the signal of a single layer leaves single precision


def whole(where: str, name: str, value: object, least: int = 1, most: int = WIDEST) -> int:
    """Return `value` as an int, or raise if it is not a whole number from `least` to `most`."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{where}: {name} must be a whole number, got {name}={shown(value)}") from None
    if isinstance(value, bool):
        raise TypeError(f"{where}: {name} must be a whole number, got {name}={value!r}")
    if number < least:
        raise ValueError(f"{where}: {name} must be at least {least}, got {name}={shown(number)}")
    if number > most:
        raise ValueError(f"{where}: {name} must be at most {most:,}, got {name}={shown(number)}")
    return number


def shown(value: object) -> str:
    """Return a value as it is shown in a message: shortened if it is long, whatever its type.

    >>> shown(7), shown("x" * 500)[-8:]
    ('7', "xxxx'...")
    """
    try:
        text = repr(value)
    except Exception:  # a whole number of more digits than Python converts, or a type with a faulty repr
        return f"a {type(value).__name__}"
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}{line[-1]}..."


def positive(where: str, name: str, value: object, least: float = 0.0, most: float = math.inf) -> float:
    """Return `value` as a float, or raise if it is not positive, finite and between `least` and `most`."""
    number = number_of(where, name, value)
    if not 0.0 < number < math.inf:
        raise ValueError(f"{where}: {name} must be positive and finite, got {name}={number!r}")
    if not least <= number <= most:
        raise ValueError(f"{where}: {name} must lie between {least:g} and {most:g}, got {name}={number!r}")
    return number


def number_of(where: str, name: str, value: object) -> float:
    """Return `value` as a float, infinite if it is too large for one, or raise if it is not a real number."""
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{where}: {name} must be a number, got {name}={shown(value)}")
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value > 0 or -1)  # type: ignore[operator]


def rate(where: str, name: str, value: object) -> float:
    """Return a rate of dropout or a leak as a float, or raise if it is not at least 0 and below 1."""
    number = number_of(where, name, value)
    if not 0 <= number < 1:
        raise ValueError(f"{where}: {name} must be at least 0 and below 1, got {name}={shown(value)}")
    return number


def one_of(where: str, name: str, value: object, choices: Sequence[Choice]) -> Choice:
    """Return the one of `choices` that equals `value`, or raise with a list of them."""
    for choice in choices:
        if isinstance(value, str) and value == choice:
            return choice
    listed = " or ".join(f'"{choice}"' for choice in choices)
    raise ValueError(f"{where}: {name} must be {listed}, got {name}={shown(value)}")


def widths(where: str, width: int | Sequence[int], depth: int | None) -> tuple[int, ...]:
    """Return the depth + 1 widths of a network, input first, given one width and a depth or all the widths."""
    if isinstance(width, str | bytes | bytearray | memoryview):
        raise TypeError(f"{where}: width must be a whole number or a sequence of them, got width={shown(width)}")
    if not is_several(width):
        if depth is None:
            raise ValueError(f"{where}: depth is missing; pass depth= or the depth + 1 widths of the layers")
        return (whole(where, "width", width),) * (whole(where, "depth", depth, most=DEEPEST) + 1)
    layers = all_whole(where, "width", width)
    if len(layers) < 2:
        raise ValueError(f"{where}: width must list at least 2 layers, input first, got width={list(layers)}")
    if depth is not None and whole(where, "depth", depth, most=DEEPEST) != len(layers) - 1:
        raise ValueError(f"{where}: width must list depth + 1 layers, got {len(layers)} widths for depth={depth}")
    if len(set(layers)) > MOST_WIDTHS:
        raise ValueError(f"{where}: width must list at most {MOST_WIDTHS:,} different widths, got {len(set(layers)):,}")
    return layers


def all_whole(where: str, name: str, values: Sequence[int]) -> tuple[int, ...]:
    """Return the values as ints, or raise if one is not a whole number from 1 to `WIDEST`, or there are too many."""
    if not is_several(values):
        raise TypeError(f"{where}: {name} must be a sequence of whole numbers, got {name}={shown(values)}")
    return tuple(whole(where, name, value) for value in _limited(where, name, values))


def is_several(values: object) -> TypeGuard[Sequence[Any]]:
    """Return whether this is a sequence or array of values, and not a single one; an array of no axes is one value."""
    return isinstance(values, Sequence) or (isinstance(values, np.ndarray) and values.ndim > 0)


def _limited(where: str, name: str, values: Sequence[Any]) -> Sequence[Any]:
    """Return the values, or raise if there are more than a network can have layers."""
    try:
        count = len(values)
    except OverflowError:  # a range of more numbers than memory has addresses
        count = sys.maxsize
    if count > DEEPEST + 1:
        raise ValueError(f"{where}: {name} must have at most {DEEPEST + 1:,} values, got more")
    return values

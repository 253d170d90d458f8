"""Random arguments: sensible ones of small size, and odd ones that no function asked for."""

import math
import random
import string
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import gradwalk as gw

Maker = Callable[[random.Random], Any]

ODD: tuple[Maker, ...] = tuple(
    (lambda chance, value=value: value)
    for value in (
        *(None, True, False, 0, -1, 1, 2, 2**31, 2**63, 2**64, 10**400, -(10**400)),
        *(0.0, -0.0, 0.5, 1.0, -2.5, 1e-320, 1e-200, 1e-9, 1e9, 1e200, 1.7e308, math.inf, -math.inf, math.nan),
        *(
            "",
            " ",
            "x",
            "relu",
            "none",
            "\0",
            "\x1b[31m",
            "é",
            "\ud800",
            "a" * 3000,
            "[" * 2000,
            "1e5",
            "nan",
            "~nobody",
        ),
        *(b"", b"abc", [], [1], [3, 4, 5], [[1]], [None], (), (2, 3), {}, {"a": 1}, set(), object(), print, int),
        *(np.array(3), np.array(2.5), np.array([]), np.array([3, 4]), np.array(["a"]), np.float32(1.5), np.int64(4)),
        *(Fraction(1, 3), Fraction(10**400), Decimal("1.5"), Decimal("1e999"), 1 + 2j, range(3), range(10**400)),
        *(Path("nowhere"), bytearray(b"xy"), memoryview(b"xy"), np.random.default_rng(0), gw.dense("relu")),
    )
)

NAMES = (
    *("linear", "relu", "leaky_relu", "leaky_relu(0.2)", "leaky_relu(-1)", "leaky_relu(1e-200)", "leaky_relu(1e300)"),
    *("tanh", "sigmoid", "softplus", "softplus(1e-5)", "softplus(1e5)", "elu", "elu(1e200)", "selu", "gelu", "silu"),
    *(
        "mish",
        "erf",
        "softsign",
        "hard_tanh",
        "sin",
        "gelu*100",
        "relu*1e-9",
        "tanh*2*3",
        "LeakyReLU(negative_slope=0.1)",
        "gelu@0.8",
        "tanh@0.5*2",
        "relu@1e-9",
    ),
)
NEUTRAL = ("linear", "relu", "leaky_relu(0.2)", "leaky_relu(-0.5)", "leaky_relu(1e-300)", "relu*3")


def one_of(*values: Any) -> Maker:
    """Return a maker of one of these values."""
    return lambda chance: chance.choice(values)


def whole(low: int, high: int) -> Maker:
    """Return a maker of whole numbers, evenly distributed."""
    return lambda chance: chance.randint(low, high)


def power(low: float, high: float) -> Maker:
    """Return a maker of numbers from 10**low to 10**high, evenly distributed in their logarithm."""
    return lambda chance: 10.0 ** chance.uniform(low, high)


def maybe(maker: Maker) -> Maker:
    """Return a maker that makes None every other time."""
    return lambda chance: maker(chance) if chance.random() < 0.5 else None


def several(maker: Maker, most: int = 5) -> Maker:
    """Return a maker of lists."""
    return lambda chance: [maker(chance) for _ in range(chance.randint(0, most))]


def mutated(maker: Maker) -> Maker:
    """Return a maker of texts with a few characters changed, removed or added."""

    def make(chance: random.Random) -> str:
        text = str(maker(chance))
        for _ in range(chance.choice((0, 0, 1, 2, 5))):
            place = chance.randint(0, len(text))
            text = (
                text[:place] + chance.choice((*string.printable, "", "é", "\0")) + text[place + chance.randint(0, 1) :]
            )
        return text

    return make


def spoiled(content: Callable[[], bytes]) -> Maker:
    """Return a maker of bytes with a few of them changed, or cut short."""

    def make(chance: random.Random) -> bytes:
        changed = bytearray(content())
        for _ in range(chance.choice((0, 1, 1, 3, 30))):
            if changed:
                changed[chance.randrange(len(changed))] = chance.randrange(256)
        return bytes(changed[: chance.randint(0, len(changed))] if chance.random() < 0.2 else changed)

    return make


activation = mutated(one_of(*NAMES))
neutral = one_of(*NEUTRAL)
weights = one_of("gaussian", "orthogonal")
width = whole(1, 40)
depth = whole(1, 12)
q = power(-8, 4)
gain = power(-1, 1)
seed = whole(0, 10)

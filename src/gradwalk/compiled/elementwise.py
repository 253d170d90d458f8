"""Activations and their slopes in place, and sums: matrices without gaps between rows are given as that many numbers.

NaN stays NaN in all of them, so that a network that has diverged is noticed.
"""

import numpy as np

from gradwalk.compiled.matrices import Matrix, at, compiled
from gradwalk.compiled.vectors import fma, number, put, sum_of_squares

_ZERO, _UNIT = np.float32(0), np.float32(1)
_SQUARES = 64  # numbers in a block of `sum_of_squares`

# tanh a = a p(a^2) / q(a^2) up to where it is 1 in single precision, fitted for the least relative error: 1.3e-9 before
# the coefficients are rounded, at most 5 units in the last place with them.
_ONE_FROM = np.float32(9.02)
_P0, _P1, _P2, _P3, _P4, _P5 = np.array(
    [1.0, 0.136799126, 3.86832464e-3, 2.80073962e-5, 3.05848727e-8, -1.22033570e-11], np.float32
)
_Q0, _Q1, _Q2, _Q3, _Q4 = np.array([1.0, 0.470132447, 2.72458275e-2, 3.93862564e-4, 1.28736223e-6], np.float32)


@compiled
def tanh(a: int, count: int) -> None:
    """Replace numbers by tanh of them."""
    for i in range(count):
        x = number(a, i)
        x = _ONE_FROM if x > _ONE_FROM else x
        x = -_ONE_FROM if x < -_ONE_FROM else x
        z = x * x
        p = fma(fma(fma(fma(fma(_P5, z, _P4), z, _P3), z, _P2), z, _P1), z, _P0)
        q = fma(fma(fma(fma(_Q4, z, _Q3), z, _Q2), z, _Q1), z, _Q0)
        h = x * p / q
        h = _UNIT if h > _UNIT else h
        put(a, i, -_UNIT if h < -_UNIT else h)


@compiled
def tanh_slope(delta: int, h: int, count: int) -> None:
    """Multiply delta by 1 - h^2."""
    for i in range(count):
        output = number(h, i)
        put(delta, i, number(delta, i) * fma(-output, output, _UNIT))


@compiled
def relu(a: int, count: int) -> None:
    """Replace negative numbers by 0."""
    for i in range(count):
        x = number(a, i)
        put(a, i, _ZERO if x < _ZERO else x)


@compiled
def relu_slope(delta: int, h: int, count: int) -> None:
    """Replace delta by 0 where h is."""
    for i in range(count):
        through = number(delta, i)
        put(delta, i, _ZERO if number(h, i) <= _ZERO else through)


@compiled
def leaky_relu(a: int, count: int, slope: float) -> None:
    """Multiply negative numbers by the slope."""
    for i in range(count):
        x = number(a, i)
        put(a, i, x * slope if x < _ZERO else x)


@compiled
def leaky_relu_slope(delta: int, h: int, count: int, slope: float) -> None:
    """Multiply delta by the slope where h is not positive."""
    for i in range(count):
        through = number(delta, i)
        put(delta, i, through if number(h, i) > _ZERO else through * slope)


@compiled
def column_sums(out: int, a: Matrix, rows: int, columns: int) -> None:
    """Write the sums of the columns of a, each number after the one above, four rows at a time."""
    for j in range(columns):
        put(out, j, _ZERO)
    whole = rows - rows % 4
    for i in range(0, whole, 4):
        one, two, three, four = at(a, i, 0), at(a, i + 1, 0), at(a, i + 2, 0), at(a, i + 3, 0)
        for j in range(columns):
            total = number(out, j) + number(one.address, j) + number(two.address, j)
            put(out, j, total + number(three.address, j) + number(four.address, j))
    for i in range(whole, rows):
        row = at(a, i, 0)
        for j in range(columns):
            put(out, j, number(out, j) + number(row.address, j))


@compiled
def norm(out: int, a: int, count: int) -> None:
    """Write the root of the sum of the squares, which is computed in double precision."""
    blocks = count // _SQUARES
    total = sum_of_squares(a, blocks) if blocks > 0 else 0.0
    for i in range(_SQUARES * blocks, count):
        total += np.float64(number(a, i)) ** 2
    put(out, 0, np.float32(np.sqrt(total)))

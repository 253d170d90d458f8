"""The operations of a pass over some layers, compiled by Numba; they run without Python's lock.

All numbers are in single precision and are given by address: rows lie `step` numbers apart.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numba import njit

from gradwalk.compiled.vectors import (
    LANES,
    ROWS,
    fma,
    from_bits,
    number,
   
    put,
    sum_of_squares,
    tile,
    transpose_block,
)

FIELDS = 23  # of an operation, see `Operation.fields`
AFFINE, BACKWARD, GRADIENT, SUMS, NORM = range(5)
TANH, TANH_SLOPE, RELU, RELU_SLOPE, LEAKY_RELU, LEAKY_RELU_SLOPE = range(5, 11)

_WIDTH = 3  # vectors of a block
PANEL = _WIDTH * LANES  # columns of a transposed piece of the weights
_BYTES = 4

# tanh a = a p(a^2) / q(a^2) up to where it is 1 in single precision: fitted for the least relative error, 1.3e-9 before
# the coefficients are rounded.
_ONE = np.float32(9.02)
_P = np.array([1.0, 0.136799126, 3.86832464e-3, 2.80073962e-5, 3.05848727e-8, -1.22033570e-11], np.float32)
_Q = np.array([1.0, 0.470132447, 2.72458275e-2, 3.93862564e-4, 1.28736223e-6], np.float32)
_P0, _P1, _P2, _P3, _P4, _P5 = _P
_Q0, _Q1, _Q2, _Q3, _Q4 = _Q

_compiled = njit(nogil=True, error_model="numpy")


def _block(rows: int, *pieces: int) -> Callable[..., None]:
    """Return a compiled block of a product, see `tile`."""
    block = tile(rows, pieces)

    @_compiled
    def compiled(out, out_step, start, a, a_step, a_stride, b, b_step, terms, last, soon, step):  # type: ignore[no-untyped-def]
        block(out, out_step, start, a, a_step, a_stride, b, b_step, terms, last, soon, step)

    return compiled  # type: ignore[no-any-return]


def _blocks(rows: int) -> list[Callable[..., None]]:
    """Return the blocks of so many rows, by their width of one to six halves of a vector."""
    half = LANES // 2
    return [_block(rows, *[LANES] * (halves // 2), *[half] * (halves % 2)) for halves in range(1, 2 * _WIDTH + 1)]


def _chosen(blocks: list[Callable[..., None]]) -> Callable[..., None]:
    """Return the function that computes a block of so many halves of a vector."""
    one, two, three, four, five, six = blocks

    @_compiled
    def block(halves, out, out_step, start, a, a_step, a_stride, b, b_step, terms, last, soon, step):  # type: ignore[no-untyped-def]
        if halves == 6:
            six(out, out_step, start, a, a_step, a_stride, b, b_step, terms, last, soon, step)
        elif halves == 5:
            five(out, out_step, start, a, a_step, a_stride, b, b_step, terms, last, soon, step)
        elif halves == 4:
            four(out, out_step, start, a, a_step, a_stride, b, b_step, terms, last, soon, step)
        elif halves == 3:
            three(out, out_step, start, a, a_step, a_stride, b, b_step, terms, last, soon, step)
        elif halves == 2:
            two(out, out_step, start, a, a_step, a_stride, b, b_step, terms, last, soon, step)
        else:
            one(out, out_step, start, a, a_step, a_stride, b, b_step, terms, last, soon, step)

    return block  # type: ignore[no-any-return]


_rows, _row = (_chosen(_blocks(rows)) for rows in (ROWS, 1))


@_compiled
def _halves(columns):  # type: ignore[no-untyped-def]
    """Return how many halves of a vector the next blocks take of so many columns, so that none is much narrower."""
    left = -(-columns // (LANES // 2))
    if left in (7, 8):
        return 4
    return min(left, 2 * _WIDTH)


@_compiled
def _column_of_blocks(
    halves, out, out_step, start, a, a_step, a_stride, b, b_step, rows, terms, last, soon, also, lines, more
):  # type: ignore[no-untyped-def]
    i = 0
    while i + ROWS <= rows:
        _rows(halves, out, out_step, start, a, a_step, a_stride, b, b_step, terms, last, soon, lines)
        soon, also, lines, more = also, soon + terms * lines, more, lines
        out, a, i = out + _BYTES * ROWS * out_step, a + _BYTES * ROWS * a_step, i + ROWS
    while i < rows:
        _row(halves, out, out_step, start, a, a_step, a_stride, b, b_step, terms, last, soon, 0)
        out, a, i = out + _BYTES * out_step, a + _BYTES * a_step, i + 1
    return soon, also, lines, more


@_compiled
def _product(out, out_step, start, a, a_step, a_stride, b, b_step, rows, terms, columns, soon, also, lines, more):  # type: ignore[no-untyped-def]
    """Write start + a b: out (rows, columns), a (rows, terms), b (terms, columns)."""
    j, half = 0, LANES // 2
    while j < columns:
        halves = _halves(columns - j)
        width = min(halves * half, columns - j)
        last = width - (halves - 1) // 2 * LANES
        begin = start + _BYTES * j if start != 0 else 0
        place, factors = out + _BYTES * j, b + _BYTES * j
        soon, also, lines, more = _column_of_blocks(
            halves,
            place,
            out_step,
            begin,
            a,
            a_step,
            a_stride,
            factors,
            b_step,
            rows,
            terms,
            last,
            soon,
            also,
            lines,
            more,
        )
        j += width


@_compiled
def _product_with_transpose(
    out, out_step, a, a_step, b, b_step, rows, terms, columns, scratch, soon, also, lines, more
):  # type: ignore[no-untyped-def]
    """Write a b^T: out (rows, columns), a (rows, terms), b (columns, terms)."""
    j, half = 0, LANES // 2
    while j < columns:
        halves = _halves(columns - j)
        width = min(halves * half, columns - j)
        last = width - (halves - 1) // 2 * LANES
        _transpose(scratch, b + _BYTES * j * b_step, b_step, width, terms)
        soon, also, lines, more = _column_of_blocks(
            halves,
            out + _BYTES * j,
            out_step,
            0,
            a,
            a_step,
            1,
            scratch,
            PANEL,
            rows,
            terms,
            last,
            soon,
            also,
            lines,
            more,
        )
        j += width


@_compiled
def _transpose(out, a, a_step, rows, columns):  # type: ignore[no-untyped-def]
    """Write the transpose of a (rows, columns) to out, whose rows are a panel wide."""
    for i in range(0, rows, LANES):
        for j in range(0, columns, LANES):
            if i + LANES <= rows and j + LANES <= columns:
                transpose_block(out + _BYTES * (j * PANEL + i), PANEL, a + _BYTES * (i * a_step + j), a_step)
            else:
                for row in range(i, min(i + LANES, rows)):
                    for column in range(j, min(j + LANES, columns)):
                        put(out, column * PANEL + row, number(a, row * a_step + column))


@_compiled
def _tanh(out, count):  # type: ignore[no-untyped-def]
    for i in range(count):
        a = number(out, i)
        a = _ONE if a > _ONE else a
        a = -_ONE if a < -_ONE else a  # NaN stays
        z = a * a
        p = fma(fma(fma(fma(fma(_P5, z, _P4), z, _P3), z, _P2), z, _P1), z, _P0)
        q = fma(fma(fma(fma(_Q4, z, _Q3), z, _Q2), z, _Q1), z, _Q0)
        h = a * p / q
        h = np.float32(1) if h > np.float32(1) else h
        put(out, i, np.float32(-1) if h < np.float32(-1) else h)


@_compiled
def _tanh_slope(out, a, count):  # type: ignore[no-untyped-def]
    for i in range(count):
        h = number(a, i)
        put(out, i, number(out, i) * fma(-h, h, np.float32(1)))


@_compiled
def _relu(out, count):  # type: ignore[no-untyped-def]
    for i in range(count):
        a = number(out, i)
        put(out, i, np.float32(0) if a < np.float32(0) else a)


@_compiled
def _relu_slope(out, a, count):  # type: ignore[no-untyped-def]
    for i in range(count):
        delta = number(out, i)
        put(out, i, np.float32(0) if number(a, i) <= np.float32(0) else delta)


@_compiled
def _leaky_relu(out, count, slope):  # type: ignore[no-untyped-def]
    for i in range(count):
        a = number(out, i)
        put(out, i, a * slope if a < np.float32(0) else a)


@_compiled
def _leaky_relu_slope(out, a, count, slope):  # type: ignore[no-untyped-def]
    for i in range(count):
        delta = number(out, i)
        put(out, i, delta if number(a, i) > np.float32(0) else delta * slope)


@_compiled
def _sums(out, a, a_step, rows, columns):  # type: ignore[no-untyped-def]
    """Write the sums of the columns: four rows at a time, each number after the one above."""
    for j in range(columns):
        put(out, j, np.float32(0))
    step = _BYTES * a_step
    for i in range(0, rows - 3, 4):
        row = a + step * i
        for j in range(columns):
            total = number(out, j) + number(row, j) + number(row + step, j)
            put(out, j, total + number(row + 2 * step, j) + number(row + 3 * step, j))
    for i in range(rows - rows % 4, rows):
        for j in range(columns):
            put(out, j, number(out, j) + number(a + step * i, j))


@_compiled
def _norm(out, a, count):  # type: ignore[no-untyped-def]
    blocks = count // 64
    total = sum_of_squares(a, blocks) if blocks > 0 else 0.0
    for i in range(64 * blocks, count):
        total += np.float64(number(a, i)) ** 2
    put(out, 0, np.float32(np.sqrt(total)))


def _with_digest(digest: str) -> Callable[..., None]:
    """Return `run`; Numba keeps what it has compiled on disk, by what a function encloses and its file."""

    @njit(nogil=True, error_model="numpy", cache=True)  # type: ignore[untyped-decorator]
    def run(operations, networks, scratch_numbers):  # type: ignore[no-untyped-def]
        """Run the operations, see `gradwalk.compiled.programs`, for one network after the other."""
        len(digest)
        memory = np.empty(scratch_numbers, np.float32)
        scratch = memory.ctypes.data
        for network in range(networks):
            for place in range(len(operations)):
                each = operations[place]
                code, rows, inner, columns = each[0], each[1], each[2], each[3]
                out, out_step = each[4] + network * each[5], each[6]
                a, a_step = each[7] + network * each[8], each[9]
                b, b_step = each[10] + network * each[11], each[12]
                soon, also = each[17] + network * each[18], each[20] + network * each[21]
                lines, more = each[19], each[22]
                if code == AFFINE:
                    start = each[13] + network * each[14]
                    _product(
                        out, out_step, start, a, a_step, 1, b, b_step, rows, inner, columns, soon, also, lines, more
                    )
                elif code == BACKWARD:
                    _product_with_transpose(
                        out, out_step, a, a_step, b, b_step, rows, inner, columns, scratch, soon, also, lines, more
                    )
                elif code == GRADIENT:
                    _product(out, out_step, 0, a, 1, a_step, b, b_step, rows, inner, columns, soon, also, lines, more)
                elif code == SUMS:
                    _sums(out, a, a_step, rows, columns)
                elif code == NORM:
                    _norm(out, a, rows * columns)
                elif code == TANH:
                    _tanh(out, rows * columns)
                elif code == TANH_SLOPE:
                    _tanh_slope(out, a, rows * columns)
                elif code == RELU:
                    _relu(out, rows * columns)
                elif code == RELU_SLOPE:
                    _relu_slope(out, a, rows * columns)
                elif code == LEAKY_RELU:
                    _leaky_relu(out, rows * columns, from_bits(each[16]))
                else:
                    _leaky_relu_slope(out, a, rows * columns, from_bits(each[16]))

    return run  # type: ignore[no-any-return]


_HERE = Path(__file__)
_SOURCES = b"".join((_HERE.parent / name).read_bytes() for name in ("vectors.py", "functions.py"))
run = _with_digest(hashlib.sha256(_SOURCES).hexdigest())

"""`run`, the one function that is called from outside: it runs the operations of a program without Python's lock."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gradwalk.compiled.elementwise import (
    column_sums,
    leaky_relu,
    leaky_relu_slope,
    norm,
    relu,
    relu_slope,
    tanh,
    tanh_slope,
)
from gradwalk.compiled.matrices import BYTES, LINE, Matrix, Size, compiled
from gradwalk.compiled.products import product, product_with_transpose
from gradwalk.compiled.requests import STREAMS, Region, Soon
from gradwalk.compiled.vectors import from_bits

FIELDS = 34  # of an operation, see `run`
AFFINE, BACKWARD, GRADIENT, SUMS, NORM = range(5)
PRODUCTS = (AFFINE, BACKWARD, GRADIENT)
TANH, TANH_SLOPE, RELU, RELU_SLOPE, LEAKY_RELU, LEAKY_RELU_SLOPE = range(5, 11)
SLOPES = (TANH_SLOPE, RELU_SLOPE, LEAKY_RELU_SLOPE)

Run = Callable[[NDArray[np.int64], int, int], None]


@compiled
def _run(operations: NDArray[np.int64], networks: int, scratch_numbers: int) -> None:
    """Run operations, one per row of FIELDS numbers, for one network after the other.

    A row has the code, the size (rows, terms, columns), four operands, the bits of a parameter, and what is used soon:
    three regions and two flags. An operand is an address, the bytes from one network to the next, and the numbers from
    one row to the next; so is a region, with bytes from one row to the next, and its rows and their width in bytes.
    """
    memory = np.empty(scratch_numbers + LINE // BYTES, np.float32)
    scratch = -(-np.int64(memory.ctypes.data) // LINE) * LINE
    streams = np.empty((STREAMS, 2), np.int64)
    for network in range(networks):
        for place in range(len(operations)):
            each = operations[place]
            code, size = each[0], Size(each[1], each[2], each[3])
            out = Matrix(each[4] + network * each[5], each[6], 1)
            a = Matrix(each[7] + network * each[8], each[9], 1)
            b = Matrix(each[10] + network * each[11], each[12], 1)
            start = Matrix(each[13] + network * each[14], 0, 1)  # one row for all
            soon = Soon(
                Region(each[17] + network * each[18], each[19], each[20], each[21]),
                Region(each[22] + network * each[23], each[24], each[25], each[26]),
                Region(each[27] + network * each[28], each[29], each[30], each[31]),
                each[32] != 0,
                each[33] != 0,
            )
            count = size.rows * size.columns
            if code == AFFINE:
                product(out, start, a, b, size, streams, soon)
            elif code == BACKWARD:
                product_with_transpose(out, a, b, size, scratch, streams, soon)
            elif code == GRADIENT:
                product(out, Matrix(0, 0, 0), Matrix(a.address, 1, a.step), b, size, streams, soon)
            elif code == SUMS:
                column_sums(out.address, a, size.rows, size.columns)
            elif code == NORM:
                norm(out.address, a.address, count)
            elif code == TANH:
                tanh(out.address, count)
            elif code == TANH_SLOPE:
                tanh_slope(out.address, a.address, count)
            elif code == RELU:
                relu(out.address, count)
            elif code == RELU_SLOPE:
                relu_slope(out.address, a.address, count)
            elif code == LEAKY_RELU:
                leaky_relu(out.address, count, from_bits(each[16]))
            elif code == LEAKY_RELU_SLOPE:
                leaky_relu_slope(out.address, a.address, count, from_bits(each[16]))


def _kept_on_disk(digest: str) -> Run:
    """Return `_run` as a function that Numba keeps on disk, if it can, until the digest changes.

    Numba keeps a function by what it encloses and the age of its own file, and looks at no other.
    """

    def run(operations: NDArray[np.int64], networks: int, scratch_numbers: int) -> None:
        len(digest)
        _run(operations, networks, scratch_numbers)

    try:
        return njit(nogil=True, error_model="numpy", cache=True)(run)  # type: ignore[no-any-return]
    except RuntimeError:  # there is no folder that can be written
        return compiled(run)  # type: ignore[no-any-return]


_SOURCES = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
run = _kept_on_disk(hashlib.sha256(_SOURCES).hexdigest())

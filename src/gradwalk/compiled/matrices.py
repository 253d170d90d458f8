"""Matrices as compiled functions know them: by address, in single precision."""

from typing import NamedTuple

from numba import njit

BYTES = 4  # of a number
LINE = 64  # bytes of a cache line

# Python's lock is released, and a division by zero gives inf.
compiled = njit(nogil=True, error_model="numpy")


class Matrix(NamedTuple):
    """Numbers that lie `step` apart from row to row and `stride` from column to column; address 0 stands for zeros."""

    address: int
    step: int
    stride: int


class Size(NamedTuple):
    """Of a product: `terms` are added up for each number."""

    rows: int
    terms: int
    columns: int


@compiled
def at(matrix: Matrix, row: int, column: int) -> Matrix:
    """Return the part of a matrix from a row and a column on; of zeros, zeros."""
    if matrix.address == 0:
        return matrix
    return Matrix(matrix.address + BYTES * (row * matrix.step + column * matrix.stride), matrix.step, matrix.stride)

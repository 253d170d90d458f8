"""The axes of a kernel by what they are."""

import math
from collections.abc import Sequence
from typing import NamedTuple


class Axes(NamedTuple):
    """The axes of a kernel: those that number its matrices, those of their inputs and those of their outputs."""

    batch: tuple[int, ...]
    inner: tuple[int, ...]
    outer: tuple[int, ...]

    @classmethod
    def of_convolution(cls, rank: int) -> "Axes":
        """Return the axes of a kernel (window..., in, out), or (in, out)."""
        return cls((), tuple(range(rank - 1)), (rank - 1,))

    @classmethod
    def of_equation(cls, equation: str) -> "Axes":
        """Return the axes of the kernel, the second operand, of an einsum.

        >>> Axes.of_equation("abc,cde->abde")
        Axes(batch=(), inner=(0,), outer=(1, 2))
        """
        operands, output = equation.replace(" ", "").split("->")
        signal, kernel = operands.split(",")
        numbered = list(enumerate(kernel))
        return cls(
            tuple(axis for axis, index in numbered if index in output and index in signal),
            tuple(axis for axis, index in numbered if index not in output),
            tuple(axis for axis, index in numbered if index in output and index not in signal),
        )

    def fan_in(self, shape: Sequence[int]) -> int:
        """Return how many inputs an output sums."""
        return math.prod(shape[axis] for axis in self.inner)

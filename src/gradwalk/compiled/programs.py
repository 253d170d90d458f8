"""Programs: operations on the networks of a stack that are run in one call.

No operation mixes numbers of two networks, so a program takes one network after the other through all of its
operations: what one of them writes is in the cache for the next. What comes from memory is asked for in advance, see
`gradwalk.compiled.ahead`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from gradwalk.compiled import running
from gradwalk.compiled.ahead import in_advance, place
from gradwalk.compiled.products import PANEL

_OPERANDS = 4  # that an operation has at most, the one that is written included


@dataclass(frozen=True)
class Operation:
    """One operation; it is called to run it alone.

    code: which, of those in `gradwalk.compiled.running`. size: of its products (rows, terms, columns), or of the
    matrices (rows, 1, columns). out, and up to three operands: (networks, rows, columns), in single precision and
    contiguous along the last axis, of which those of activations and norms have no gaps between rows. parameter: of the
    activation.
    """

    code: int
    size: tuple[int, int, int]
    out: torch.Tensor
    operands: tuple[torch.Tensor, ...] = ()
    parameter: float = 0.0

    def __call__(self) -> None:
        """Run the operation."""
        Program([self])()

    def fields(self) -> list[int]:
        """Return the operation as numbers, see `run`."""
        tensors = (self.out, *self.operands)
        if self.code >= running.TANH:
            assert all(each.shape[1] == 1 or each.stride(1) == each.shape[2] for each in tensors), "gaps between rows"
        places = [place(each) for each in tensors]
        places += [[0, 0, 0]] * (_OPERANDS - len(places))
        bits = int(np.float32(self.parameter).view(np.int32))
        return [self.code, *self.size, *(number for each in places for number in each), bits]


class Program:
    """Operations in their order; it keeps the memory that they work on."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = tuple(operations)
        rows = [[*each.fields(), *soon] for each, soon in zip(operations, in_advance(operations), strict=True)]
        self._table: NDArray[np.int64] = np.array(rows, np.int64)
        self._networks = len(operations[0].out)
        transposed = [each.size[1] for each in operations if each.code == running.BACKWARD]
        self._scratch = PANEL * max(transposed, default=0)

    def __call__(self) -> None:
        """Run the operations."""
        running.run(self._table, self._networks, self._scratch)

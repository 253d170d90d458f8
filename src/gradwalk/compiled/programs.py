"""Programs: operations on the networks of a stack that are run in one call.

No operation mixes numbers of two networks, so a program takes one network after the other through all of its
operations: what one of them writes is in the cache for the next. What comes from memory is asked for in advance: during
a product the weights of the next product of its kind, and the places where that one writes or reads besides.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from gradwalk.compiled import running
from gradwalk.compiled.products import PANEL
from gradwalk.compiled.vectors import ROWS

_BYTES = 4
_AHEAD = 131_072  # numbers that are asked for at a time at most: more would not stay in the cache
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
        places = [_place(each) for each in tensors]
        places += [[0, 0, 0]] * (_OPERANDS - len(places))
        bits = int(np.float32(self.parameter).view(np.int32))
        return [self.code, *self.size, *(number for place in places for number in place), bits]

    def steps(self) -> int:
        """Return how many terms all blocks of a product add up, about."""
        rows, terms, columns = self.size
        return terms * max(1, rows // ROWS) * -(-columns // PANEL)


class Program:
    """Operations in their order; it keeps the memory that they work on."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = tuple(operations)
        rows = [[*each.fields(), *soon] for each, soon in zip(operations, _in_advance(operations), strict=True)]
        self._table: NDArray[np.int64] = np.array(rows, np.int64)
        self._networks = len(operations[0].out)
        transposed = [each.size[1] for each in operations if each.code == running.BACKWARD]
        self._scratch = PANEL * max(transposed, default=0)

    def __call__(self) -> None:
        """Run the operations."""
        running.run(self._table, self._networks, self._scratch)


def _in_advance(operations: Sequence[Operation]) -> list[list[int]]:
    """Return what each operation asks for: for two tensors the address, its step and the cache lines per block."""
    soon = [[0] * 6 for _ in operations]
    for code in (running.AFFINE, running.BACKWARD, running.GRADIENT):
        places = [place for place, each in enumerate(operations) if each.code == code]
        for place, following in zip(places, [*places[1:], *places[:1]], strict=True):
            own, then = operations[place], operations[following]
            after = operations[following + 1] if following + 1 < len(operations) else None
            if code == running.AFFINE:
                tensors = [then.operands[1], then.out]
            elif code == running.GRADIENT:
                tensors = [then.out]
            else:  # whose slope reads the outputs of a layer
                tensors = [then.operands[1], *(after.operands if after and after.code in running.SLOPES else ())]
            ahead = following <= place  # the first operation of the next network
            soon[place] = [number for each in tensors for number in _lines(each, ahead, own.steps())]
            soon[place] += [0] * (6 - len(soon[place]))
    return soon


def _lines(tensor: torch.Tensor, ahead: bool, steps: int) -> list[int]:
    address, network, _ = _place(tensor)
    bytes_ = _BYTES * min(tensor[0].numel(), _AHEAD)
    return [address + network * ahead, network, -(-2 * bytes_ // steps)]  # every second block asks for it


def _place(tensor: torch.Tensor) -> list[int]:
    """Return the address of a tensor, and its steps: in bytes from network to network, in numbers from row to row."""
    networks, rows, columns = tensor.stride()
    assert tensor.dtype == torch.float32, tensor
    assert columns == 1 or tensor.shape[2] == 1, tensor
    return [tensor.data_ptr(), _BYTES * networks, rows]

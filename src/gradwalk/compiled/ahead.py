"""What each product of a program asks for in advance, see `gradwalk.compiled.requests`: what the next product uses.

A small matrix is asked for as a whole. Of a large one this would take the place of what is needed now in the
second-level cache: only the part for the first column of blocks is asked for, and each of these asks for the part of
the next.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from gradwalk.compiled import running
from gradwalk.compiled.matrices import BYTES, LINE
from gradwalk.compiled.products import PANEL

if TYPE_CHECKING:
    from gradwalk.compiled.programs import Operation

_SMALL = 16_384  # numbers of a small matrix: 128 x 128 weights
_NOTHING = [0] * 5  # a region of no rows


def place(tensor: torch.Tensor) -> list[int]:
    """Return the address of a tensor, and its steps: in bytes from network to network, in numbers from row to row."""
    networks, rows, columns = tensor.stride()
    assert tensor.dtype == torch.float32, tensor
    assert columns == 1 or tensor.shape[2] == 1, tensor
    return [tensor.data_ptr(), BYTES * networks, rows]


def in_advance(operations: Sequence["Operation"]) -> list[list[int]]:
    """Return what each operation asks for, as numbers: three regions and two flags, see `running.run`."""
    numbers = [[*_NOTHING * 3, 0, 0] for _ in operations]
    products = [number for number, each in enumerate(operations) if each.code in running.PRODUCTS]
    for before, own, after in zip(
        [*products[-1:], *products[:-1]], products, [*products[1:], *products[:1]], strict=True
    ):
        at_hand = {each.data_ptr() for number in (before, own) for each in _tensors(operations[number])}
        between = operations[own + 1 : after] if own < after else []  # else the next product is of the next network
        more = [_lines(each) for each in _read(between, operations[after]) if each.data_ptr() not in at_hand]
        soon = [*_second(operations[after]), *_out(operations[after]), *(more[0] if more else _NOTHING)]
        if after <= own:
            soon = _of_next_network(soon)
        numbers[own] = [*soon, *_panels(operations[own])]
    return numbers


def _tensors(operation: "Operation") -> tuple[torch.Tensor, ...]:
    return operation.out, *operation.operands


def _read(between: Sequence["Operation"], after: "Operation") -> list[torch.Tensor]:
    """Return what operations between two products read, and the first factor of the second product."""
    return [*(each.operands[0] for each in between if each.code in running.SLOPES), after.operands[0]]


def _panels(operation: "Operation") -> list[int]:
    """Return whether second factor and result of a product are large; that of a gradient, delta, is in the cache."""
    second = operation.code != running.GRADIENT and not _is_small(operation.operands[1])
    return [int(second), int(not _is_small(operation.out))]


def _is_small(tensor: torch.Tensor) -> bool:
    return tensor[0].numel() <= _SMALL


def _second(operation: "Operation") -> list[int]:
    """Return the region of the second factor."""
    second = operation.operands[1]
    if operation.code == running.GRADIENT:
        return _NOTHING
    if _is_small(second):
        return _lines(second)
    return _lines(second[:, :PANEL]) if operation.code == running.BACKWARD else _columns(second)


def _out(operation: "Operation") -> list[int]:
    return _lines(operation.out) if _is_small(operation.out) else _columns(operation.out)


def _columns(tensor: torch.Tensor) -> list[int]:
    """Return the region of the first columns."""
    address, network, step = place(tensor)
    return [address, network, BYTES * step, tensor.shape[1], BYTES * min(tensor.shape[2], PANEL)]


def _lines(tensor: torch.Tensor) -> list[int]:
    """Return the region of a whole matrix, as rows of one cache line."""
    address, network, step = place(tensor)
    return [address, network, LINE, -(-BYTES * tensor.shape[1] * step // LINE), BYTES]


def _of_next_network(soon: list[int]) -> list[int]:
    """Return the same regions one network on."""
    return [number + soon[index + 1] if index % len(_NOTHING) == 0 else number for index, number in enumerate(soon)]

"""Norms and mean squares in double precision: of a tensor, or of many, where those of one shape are computed together.

A walk needs a dozen numbers of each of many small tensors; one by one, most of the time would go into the calls.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.linalg import vector_norm

from gradwalk.activations import Array

_NUMBERS = 2**17  # per stack: enough for a call of torch, and few enough for memory that malloc keeps


def doubled(tensor: Tensor) -> Tensor:
    """Return a tensor in double precision without its graph; of complex numbers the real and the imaginary parts."""
    tensor = tensor.detach()
    return (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).double()


def stacks(tensors: Sequence[Tensor]) -> Iterator[tuple[list[int], Tensor]]:
    """Yield the tensors of one shape, dtype and device in stacks, each with their places; large ones by themselves.

    >>> [(places, tuple(stack.shape)) for places, stack in stacks([torch.ones(2), torch.ones(3), torch.ones(2)])]
    [([0, 2], (2, 2)), ([1], (1, 3))]
    """
    for places in _alike(tensors):
        few = [tensors[place].detach() for place in places]
        yield places, torch.stack(few) if len(few) > 1 else few[0][None]


def double_stacks(tensors: Sequence[Tensor]) -> Iterator[tuple[list[int], Tensor]]:
    """Yield the same stacks in double precision, of complex numbers the real and the imaginary parts.

    Each is overwritten by the next: fresh memory costs more time than the numbers that are written to it.
    """
    room = torch.empty(0, dtype=torch.float64)
    for places, stack in stacks(tensors):
        real = torch.view_as_real(stack.resolve_conj()) if stack.is_complex() else stack
        if room.device != real.device or room[: len(real)].shape != real.shape:
            room = torch.empty_like(real, dtype=torch.float64)
        yield places, room[: len(real)].copy_(real)


def _alike(tensors: Sequence[Tensor]) -> Iterator[list[int]]:
    """Yield the places of tensors of one shape, dtype and device, as many as are computed together."""
    groups: dict[tuple[torch.Size, torch.dtype, torch.device], list[int]] = {}
    for place, each in enumerate(tensors):
        groups.setdefault((each.shape, each.dtype, each.device), []).append(place)
    for group in groups.values():
        yield from parts(group, tensors[group[0]].numel())


def parts(places: Sequence[int], numbers: int) -> Iterator[list[int]]:
    """Yield the places of tensors with that many numbers each in parts that are computed together.

    >>> [len(part) for part in parts(range(5), numbers=50_000)]
    [2, 2, 1]
    """
    size = max(_NUMBERS // max(numbers, 1), 1)
    for start in range(0, len(places), size):
        yield list(places[start : start + size])


def mean_squares(tensors: Sequence[Tensor]) -> Array:
    """Return the mean square of the entries of each tensor, 0 if it has none.

    >>> mean_squares([torch.ones(2), torch.tensor([0.0, 2.0, 2.0]), torch.ones(0)])
    array([1.        , 2.66666667, 0.        ])
    """
    squares = np.empty(len(tensors))
    for places, stack in double_stacks(tensors):
        rows = stack.reshape(len(places), -1)
        squares[places] = (vector_norm(rows, dim=1).square() / max(rows.shape[1], 1)).cpu().numpy()
    return squares


def example_norms(delta: Tensor, examples: int) -> Tensor:
    """Return the norm of each example's gradient in double precision, so that squares of small numbers survive."""
    norms: Tensor = vector_norm(doubled(delta).reshape(examples, -1), dim=1)
    return norms


def row_norms(deltas: Sequence[Tensor]) -> list[Tensor]:
    """Return the norm of each row of each gradient in double precision; one without dimensions is a row."""
    norms: list[Tensor] = [torch.empty(0)] * len(deltas)
    for places, stack in double_stacks(deltas):
        rows = deltas[places[0]].shape[0] if deltas[places[0]].dim() else 1
        for place, own in zip(places, vector_norm(stack.reshape(len(places), rows, -1), dim=2), strict=True):
            norms[place] = own
    return norms


def all_example_norms(rows: Sequence[Tensor], examples: int) -> Array:
    """Return the norm of each example's gradient from those of its rows: one row per example, one column per tensor."""
    columns = np.empty((examples, len(rows)))
    for places, stack in stacks(rows):
        columns[:, places] = vector_norm(stack.reshape(len(places), examples, -1), dim=2).T.cpu().numpy()
    return columns


def log_ratio(one: float, other: float) -> float:
    """Return ln(one / other) of two sizes, NaN where either is zero or unknown."""
    return math.log(one) - math.log(other) if one > 0 and other > 0 else math.nan

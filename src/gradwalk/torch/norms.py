"""Norms and mean squares, as doubles: of a tensor, or of many, where those of one shape are computed together.

A walk needs a dozen numbers of each of many small tensors; one by one, most of the time would go into the calls.
"""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.linalg import vector_norm

from gradwalk.activations import Array

_SHORTEST = 1e-12  # the norm above which squares that are lost in single precision do not matter
_PIECE = 4096  # numbers whose squares are added in single precision
_WHOLE = 2**16  # numbers of a whole tensor up to which torch adds their squares in single precision to 1e-6
_NUMBERS = 2**18  # per stack: enough for a call of torch, and few enough for memory that malloc keeps
_KEPT = 8  # stacks that are kept to be written again

_OWN = threading.local()


def rooms_of_thread() -> "Rooms":
    """Return the memory that everything in a thread may work in that needs it for a moment."""
    if not hasattr(_OWN, "rooms"):
        _OWN.rooms = Rooms()
    rooms: Rooms = _OWN.rooms
    return rooms


def real(tensor: Tensor) -> Tensor:
    """Return a tensor without its graph; of complex numbers the real and the imaginary parts."""
    tensor = tensor.detach()
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def doubled(tensor: Tensor) -> Tensor:
    """Return the same in double precision."""
    return real(tensor).double()


class Rooms:
    """Memory that is written again and again: fresh memory costs more time than the numbers that are written to it.

    numbers: per stack. No more than eight times as many are kept.
    """

    def __init__(self, numbers: int = _NUMBERS) -> None:
        self.numbers = numbers
        self._rooms: dict[tuple[Any, ...], Tensor] = {}

    @property
    def held(self) -> int:
        """The numbers that are kept."""
        return sum(room.numel() for room in self._rooms.values())

    def stacked(self, name: str, tensors: Sequence[Tensor], dtype: torch.dtype) -> Tensor:
        """Return tensors of one shape as one of that dtype; the next stack under the same name overwrites it."""
        room = self._room(name, len(tensors), tensors[0].shape, dtype, tensors[0].device)
        with torch.no_grad():
            return torch.stack(list(tensors), out=room)

    def _room(self, name: str, number: int, shape: torch.Size, dtype: torch.dtype, device: torch.device) -> Tensor:
        key = (name, shape, dtype, device)
        room = self._rooms.get(key)
        if room is None or len(room) < number:
            with torch.inference_mode(False):  # what is allocated in that mode cannot be written to outside of it
                room = torch.empty((number, *shape), dtype=dtype, device=device)
            self._keep(key, room)
        return room if len(room) == number else room[:number]

    def _keep(self, key: tuple[Any, ...], room: Tensor) -> None:
        """Keep a stack in place of the one of its key, or of all if they would be too many; none that is too large."""
        most = _KEPT * self.numbers
        self._rooms.pop(key, None)
        if room.numel() > most:
            return
        if self.held + room.numel() > most:
            self._rooms.clear()
        self._rooms[key] = room

    def together(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return tensors of one shape and dtype as one to be read, of complex numbers the real and imaginary parts.

        A single tensor is not copied; otherwise the next stack overwrites this one.
        """
        if len(tensors) == 1:
            return real(tensors[0])[None]
        few = [real(each) for each in tensors] if tensors[0].is_complex() else tensors
        return self.stacked("together", few, few[0].dtype)


def stacks(tensors: Sequence[Tensor]) -> Iterator[tuple[list[int], Tensor]]:
    """Yield the tensors of one shape, dtype and device in stacks, each with their places; large ones by themselves.

    >>> [(places, tuple(stack.shape)) for places, stack in stacks([torch.ones(2), torch.ones(3), torch.ones(2)])]
    [([0, 2], (2, 2)), ([1], (1, 3))]
    """
    for places in alike(tensors):
        with torch.no_grad():
            few = [tensors[place] for place in places]
            stack = torch.stack(few) if len(few) > 1 else few[0][None]
        yield places, stack


def alike(tensors: Sequence[Tensor]) -> Iterator[list[int]]:
    """Yield the places of tensors of one shape, dtype and device, as many as are computed together."""
    for group in groups(tensors):
        yield from parts(group, tensors[group[0]].numel())


def groups(tensors: Sequence[Tensor]) -> list[list[int]]:
    """Return the places of the tensors of each shape, dtype and device."""
    places: dict[tuple[torch.Size, torch.dtype, torch.device], list[int]] = {}
    for place, each in enumerate(tensors):
        places.setdefault((each.shape, each.dtype, each.device), []).append(place)
    return list(places.values())


def parts(places: Sequence[int], numbers: int, most: int = _NUMBERS) -> Iterator[list[int]]:
    """Yield the places of tensors with that many numbers each in parts that are computed together, of `most` numbers.

    >>> [len(part) for part in parts(range(5), numbers=100_000)]
    [2, 2, 1]
    """
    size = max(most // max(numbers, 1), 1)
    for start in range(0, len(places), size):
        yield list(places[start : start + size])


def norms_of(rows: Tensor) -> Tensor:
    """Return the norms along the last dimension in double precision.

    Numbers of single precision are squared and added in it, a piece of each row at a time, if all norms are far inside
    its range: that takes an eighth of the time and changes the seventh digit.
    """
    if is_single(rows):
        norms = _norms_by_pieces(rows)
        if far_inside(norms):
            return norms
    doubles: Tensor = vector_norm(rows, dim=-1, dtype=torch.float64)
    return doubles


def is_single(rows: Tensor) -> bool:
    """Whether norms may be tried in single precision; not elsewhere than on the CPU, where looking at them waits."""
    return rows.dtype == torch.float32 and rows.is_cpu and rows.numel() > 0


def far_inside(norms: Tensor) -> bool:
    """Whether the squares behind all norms that matter are in the range of single precision."""
    shortest, longest = norms.aminmax()
    return bool(shortest > _SHORTEST and longest < 1 / _SHORTEST)


def _norms_by_pieces(rows: Tensor) -> Tensor:
    end = rows.shape[-1] // _PIECE * _PIECE
    if not end:
        short: Tensor = vector_norm(rows, dim=-1)
        return short.double()
    pieces = vector_norm(rows[..., :end].reshape(*rows.shape[:-1], -1, _PIECE), dim=-1)
    rest = vector_norm(rows[..., end:], dim=-1)
    norms: Tensor = vector_norm(torch.cat([pieces, rest[..., None]], dim=-1), dim=-1, dtype=torch.float64)
    return norms


def mean_squares(tensors: Sequence[Tensor]) -> Array:
    """Return the mean square of the entries of each tensor, 0 if it has none.

    >>> mean_squares([torch.ones(4), torch.tensor([3.0, 4.0]), torch.ones(0)])
    array([ 1. , 12.5,  0. ])
    """
    squares = np.empty(len(tensors))
    with torch.no_grad():
        for places in groups(tensors):
            few = [tensors[place] for place in places]
            squares[places] = (_whole_norms(few).square() / max(real(few[0]).numel(), 1)).cpu().numpy()
    return squares


def _whole_norms(tensors: list[Tensor]) -> Tensor:
    """Return the norm of each of some tensors of one shape, without a copy where single precision is enough."""
    if len(tensors) > 1 and is_single(tensors[0]) and tensors[0].numel() <= _WHOLE:
        norms = torch.stack(torch._foreach_norm(tensors)).double()
        if far_inside(norms):
            return norms
    rooms, every = rooms_of_thread(), parts(range(len(tensors)), tensors[0].numel())
    few = (rooms.together(tensors[part[0] : part[-1] + 1]) for part in every)
    return torch.cat([norms_of(stack.reshape(len(stack), -1)) for stack in few])


def example_norms(delta: Tensor, examples: int) -> Tensor:
    """Return the norm of each example's gradient in double precision, so that squares of small numbers survive."""
    return norms_of(real(delta).reshape(examples, -1))


class RowNorms(Sequence[Tensor]):
    """The norms of the rows of some tensors in double precision, those of tensors of one shape as one.

    stacks: the places of the tensors of one shape, and a row of norms for each.
    """

    def __init__(self, stacks: Sequence[tuple[list[int], Tensor]]) -> None:
        self.stacks = stacks

    @cached_property
    def _rows(self) -> list[Tensor]:
        rows = {place: own for places, stack in self.stacks for place, own in zip(places, stack.unbind(), strict=True)}
        return [rows[place] for place in range(len(rows))]

    def __len__(self) -> int:
        return sum(len(places) for places, _ in self.stacks)

    def __getitem__(self, place: Any) -> Any:
        return self._rows[place]

    @property
    def counts(self) -> list[int]:
        """The numbers of rows that occur."""
        return [stack.shape[1] for _, stack in self.stacks]

    def per_example(self, examples: int) -> Array:
        """Return the norm of each example, whose rows are next to each other: one row per example.

        The examples of a tensor are next to each other in memory.
        """
        norms = np.empty((len(self), examples))
        for places, stack in self.stacks:
            whole = stack.shape[1] == examples
            own = stack if whole else vector_norm(stack.reshape(len(places), examples, -1), dim=2)
            norms[places] = own.cpu().numpy()
        return norms.T

    def largest(self) -> Array:
        """Return the largest norm of each tensor."""
        return self._reduced(lambda stack: stack.amax(1))

    def whole(self) -> Array:
        """Return the norm of each tensor."""
        return self._reduced(lambda stack: vector_norm(stack, dim=1))

    def _reduced(self, statistic: Callable[[Tensor], Tensor]) -> Array:
        numbers = np.empty(len(self))
        for places, stack in self.stacks:
            numbers[places] = statistic(stack).cpu().numpy()
        return numbers


def row_norms(tensors: Sequence[Tensor]) -> RowNorms:
    """Return the norms of the rows of some tensors; one without dimensions is a row."""
    rooms = rooms_of_thread()
    return RowNorms([(group, stacked_row_norms([tensors[each] for each in group], rooms)) for group in groups(tensors)])


def stacked_row_norms(tensors: Sequence[Tensor], rooms: Rooms) -> Tensor:
    """Return the same for tensors of one shape, dtype and device, as one: a row of norms for each."""
    return torch.cat([norms for _, norms in row_stacks(tensors, rooms)])


def row_stacks(tensors: Sequence[Tensor], rooms: Rooms) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield tensors of one shape, dtype and device in stacks, with the norms of their rows in double precision.

    A stack is not to be written to, and is overwritten by the next.
    """
    first = tensors[0]
    rows = len(first) if first.dim() else 1
    for part in parts(range(len(tensors)), first.numel(), rooms.numbers):
        stack = rooms.together(tensors[part[0] : part[-1] + 1])
        flat = stack if stack.dim() == 3 else stack.reshape(len(stack), rows, -1)
        yield stack, norms_of(flat)


def log_ratio(one: float, other: float) -> float:
    """Return ln(one / other) of two sizes, NaN where either is zero or unknown."""
    return math.log(one) - math.log(other) if one > 0 and other > 0 else math.nan

"""How many directions the examples of a batch still span at each layer: their gradients, and their signals."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.linalg import vector_norm

from gradwalk.activations import Array
from gradwalk.torch.norms import Rooms, groups, row_stacks, stacked_row_norms

MOST = 64  # examples that are compared with one another: the time grows with their square
FEWEST = 8  # examples needed for an estimate
_SHORT = 1e-30  # the norm below which its inverse may leave the range of single precision


def directions_of(rows: Tensor) -> float:
    """Return 1 / <cos^2> over the pairs of different rows: how many directions they span, 1 if all are on one line.

    It is the participation ratio of the rows, each scaled to unit length, without what each has in common with itself.
    NaN for fewer than 8 rows that are finite and not zero; at most the number of columns.

    >>> rows = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).repeat(4, 1)
    >>> round(directions_of(rows), 3)
    2.0
    """
    return float(directions_between([rows])[0])


def directions_between(tensors: Sequence[Tensor]) -> Array:
    """Return the directions that the rows of each tensor span, NaN where they are no vectors."""
    return Rows(tensors).directions


class Rows:
    """The norms of the rows of some tensors in double precision, and how many directions the rows of each span.

    Those of one shape are computed together. Nothing waits for another device than the CPU until directions are read.

    Args:
        tensors: whose rows are measured.
        rooms: memory to work in, for callers that measure again and again.

    Attributes:
        norms: one tensor for each; one without dimensions has one row.
    """

    def __init__(self, tensors: Sequence[Tensor], rooms: Rooms | None = None) -> None:
        rooms = Rooms() if rooms is None else rooms
        self.norms = [torch.empty(0)] * len(tensors)
        self._directions: list[tuple[list[int], Tensor]] = []
        for group in groups(tensors):
            norms, directions = _measured([tensors[place] for place in group], rooms)
            for place, own in zip(group, norms.unbind(), strict=True):
                self.norms[place] = own
            if directions is not None:
                self._directions.append((group, directions))

    @property
    def directions(self) -> Array:
        """How many directions the rows of each tensor span, NaN where they are no vectors."""
        directions = np.full(len(self.norms), math.nan)
        for places, numbers in self._directions:
            directions[places] = numbers.cpu().numpy()
        return directions


def _measured(tensors: Sequence[Tensor], rooms: Rooms) -> tuple[Tensor, Tensor | None]:
    """Return the norms of the rows of some tensors of one shape, and their directions unless they are no vectors."""
    first = tensors[0]
    if first.dim() != 2 or first.is_complex():
        return stacked_row_norms(tensors), None
    every, lengths = [], []
    for stack, norms in row_stacks(tensors, rooms):
        every.append(norms)
        few, unit = stack[:, :MOST], UnitLength(norms[:, :MOST], first.dtype)
        rows = unit.scaled(few, rooms.empty("rows", few, few.shape[1:], unit.dtype))
        cosines = rooms.empty("cosines", few, (few.shape[1], few.shape[1]), unit.dtype)
        lengths.append(length_of(torch.bmm(rows, rows.mT, out=cosines)))
    norms = torch.cat(every)
    return norms, directions_from(torch.cat(lengths), norms[:, :MOST], first.shape[-1])


class UnitLength:
    """Scales rows to unit length, in their precision but at least in single; 0 where they are zero or not finite.

    norms: of the rows.
    """

    def __init__(self, norms: Tensor, dtype: torch.dtype) -> None:
        self.dtype = torch.promote_types(dtype, torch.float32)
        shortest, longest = norms.aminmax() if norms.is_cpu else (0.0, 0.0)  # elsewhere it would wait for the device
        self.at_once = bool(shortest > _SHORT and longest < 1 / _SHORT)
        factors = norms.reciprocal() if self.at_once else norms.rsqrt().nan_to_num_(0.0, 0.0, 0.0)
        self.factors = factors.to(self.dtype)[..., None]

    def scaled(self, rows: Tensor, out: Tensor, own: slice = slice(None)) -> Tensor:
        """Write the rows of some layers, scaled, to `out`, which may be the same tensor, and return it."""
        factors = self.factors[own]
        torch.mul(rows, factors, out=out)
        return out if self.at_once else out.mul_(factors).nan_to_num_(0.0, 0.0, 0.0)  # 1 / norm may leave the range


def length_of(cosines: Tensor) -> Tensor:
    """Return the root of the sum of the squared cosines between different rows, per layer; the diagonal is set to 0."""
    cosines.diagonal(dim1=-2, dim2=-1).zero_()
    length: Tensor = vector_norm(cosines, dim=(-2, -1))
    return length


def directions_from(lengths: Tensor, norms: Tensor, width: int) -> Tensor:
    """Return the directions from the lengths of the cosines between rows of that width; norms: of the rows."""
    count = ((norms > 0) & (norms < math.inf)).sum(-1)
    number = (count * (count - 1) / lengths.double().square().clamp_(min=1e-300)).clamp_(max=width)
    return torch.where(count < FEWEST, math.nan, number)

"""How many directions the examples of a batch still span at each layer: their gradients, and their signals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.linalg import vector_norm

from gradwalk.activations import Array
from gradwalk.torch.norms import Rooms, RowNorms, groups, rooms_of_thread, row_stacks, stacked_row_norms

MOST = 40  # examples that are compared with one another: the time grows with their square
FEWEST = 8  # examples needed for an estimate
_SHORT = 1e-15  # the norm below which products of rows may leave the range of single precision


def directions_of(rows: Tensor) -> float:
    """Return 1 / <cos^2> over the pairs of different rows: how many directions they span, 1 if all are on one line.

    It is the participation ratio of the rows, each scaled to unit length, without what each has in common with itself.
    NaN for fewer than 8 rows that are finite and not zero; at most the number of columns. Of many rows, the first 40
    are compared.

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
        rooms = rooms_of_thread() if rooms is None else rooms
        measured = [(group, *_measured([tensors[place] for place in group], rooms)) for group in groups(tensors)]
        self.norms = RowNorms([(group, norms) for group, norms, _ in measured])
        self._directions = [(group, numbers) for group, _, numbers in measured if numbers is not None]

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
        return stacked_row_norms(tensors, rooms), None
    every, directions = [], []
    for stack, norms in row_stacks(tensors, rooms):
        unit = Unit.of(norms, first.dtype)
        every.append(norms)
        directions.append(unit.directions(vector_norm(unit.cosines(stack), dim=(-2, -1)), first.shape[-1]))
    return torch.cat(every), torch.cat(directions)


@dataclass(frozen=True, eq=False)
class Unit:
    """Scales rows to unit length, in their precision but at least in single; 0 where they are zero or not finite.

    Attributes:
        norms: of the rows.
        factors: what scales the rows, once if later, else twice: 1 / norm may leave the range.
        later: whether no norm is extreme, so that products between the rows are scaled rather than the rows.
    """

    norms: Tensor
    factors: Tensor
    later: bool

    @classmethod
    def of(cls, norms: Tensor, dtype: torch.dtype) -> "Unit":
        """Return what scales rows of these norms, of that dtype."""
        shortest, longest = norms.aminmax() if norms.is_cpu else (0.0, 0.0)  # elsewhere it would wait for the device
        later = bool(shortest > _SHORT and longest < 1 / _SHORT)
        factors = norms.reciprocal() if later else norms.rsqrt().nan_to_num_(0.0, 0.0, 0.0)
        return cls(norms, factors.to(torch.promote_types(dtype, torch.float32))[..., None], later)

    def __getitem__(self, own: slice) -> "Unit":
        """Return what scales the rows of some of the layers."""
        return Unit(self.norms[own], self.factors[own], self.later)

    def _rows(self, rows: Tensor) -> Tensor:
        """Return the first rows in the precision, scaled unless their products are."""
        if self.later:
            return rows.to(self.factors.dtype)
        factors = self.factors[:, : rows.shape[1]]
        return (rows * factors).mul_(factors).nan_to_num_(0.0, 0.0, 0.0)

    def products(self, rows: Tensor, others: Tensor) -> Tensor:
        """Return the products of rows, of unit length, with others; both are overwritten.

        The rows are scaled first: products of short rows with short others would leave the range of single precision.
        """
        return others.mul_(rows.mul_(self.factors) if self.later else self._rows(rows)).sum(-1)

    def cosines(self, rows: Tensor) -> Tensor:
        """Return the cosines between the first rows of each layer, 0 between each and itself."""
        few, factors = self._rows(rows[:, :MOST]), self.factors[:, :MOST]
        cosines = torch.bmm(few, few.mT)
        cosines.diagonal(dim1=-2, dim2=-1).zero_()
        return cosines.mul_(factors).mul_(factors.mT) if self.later else cosines

    def directions(self, lengths: Tensor, width: int) -> Tensor:
        """Return the directions from the roots of the sums of the squared cosines between rows of that width."""
        compared = self.norms[:, :MOST]
        count: Any = compared.shape[1]
        if not self.later or count < FEWEST:
            count = ((compared > 0) & (compared < math.inf)).sum(-1)
            count = torch.where(count < FEWEST, math.nan, count)
        number: Tensor = count * (count - 1) / lengths.double().square_().clamp_(min=1e-300)
        return number.clamp_(max=width)

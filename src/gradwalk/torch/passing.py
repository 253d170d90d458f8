"""How many directions the examples of a batch still span at each layer: their gradients, and their signals."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gradwalk.activations import Array
from gradwalk.torch.measurement import Measured
from gradwalk.torch.norms import stacks

_MOST = 64  # examples that are compared with one another
FEWEST = 8  # examples needed for an estimate


def directions_of(rows: Tensor) -> float:
    """Return 1 / <cos^2> over the pairs of different rows: how many directions they span, 1 if all are on one line.

    It is the participation ratio of the rows, each scaled to unit length, without what each has in common with itself.
    NaN for fewer than 8 rows that are finite and not zero; at most the number of columns.

    >>> rows = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).repeat(4, 1)
    >>> round(directions_of(rows), 3)
    2.0
    """
    return float(directions_on_device(rows))


def directions_on_device(rows: Tensor) -> Tensor:
    """Return the same as a tensor, without waiting for the device; dimensions before those of the rows stay."""
    used = rows[..., :_MOST, :].detach().double()
    norms = torch.linalg.vector_norm(used, dim=-1, keepdim=True)
    fine = torch.isfinite(norms) & (norms > 0)
    unit = torch.where(fine, used / norms, 0.0).to(torch.promote_types(rows.dtype, torch.float32))
    cosines, count = unit @ unit.mT, fine.sum((-2, -1))
    cosines.diagonal(dim1=-2, dim2=-1).zero_()
    squares = cosines.square_().sum((-2, -1)).double()
    number = (count * (count - 1) / squares.clamp_min(1e-300)).clamp_max(float(rows.shape[-1]))
    return torch.where(count < FEWEST, math.nan, number)


def passing(measured: Measured) -> tuple[Array, Array]:
    """Return the directions of the gradients and of the pre-activations per layer, NaN where outputs are no vectors."""
    outputs = [call.output.detach() for call in measured.calls]
    return directions_per_layer(measured.deltas), directions_per_layer(outputs)


def directions_per_layer(tensors: Sequence[Tensor]) -> Array:
    """Return the directions of each tensor, NaN where its rows are no vectors."""
    directions = np.full(len(tensors), math.nan)
    for places, stack in stacks([each[:_MOST] if each.dim() else each for each in tensors]):
        if stack.dim() == 3 and not stack.is_complex():
            directions[places] = directions_on_device(stack).cpu().numpy()
    return directions

"""How many directions the examples of a batch still span at each layer: their gradients, and their signals."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.linalg import vector_norm

from gradwalk.activations import Array
from gradwalk.torch.conditional import MOST
from gradwalk.torch.measurement import Measured
from gradwalk.torch.norms import double_stacks

FEWEST = 8  # examples needed for an estimate


def directions_of(rows: Tensor) -> float:
    """Return 1 / <cos^2> over the pairs of different rows: how many directions they span, 1 if all are on one line.

    It is the participation ratio of the rows, each scaled to unit length, without what each has in common with itself.
    NaN for fewer than 8 rows that are finite and not zero; at most the number of columns.

    >>> rows = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).repeat(4, 1)
    >>> round(directions_of(rows), 3)
    2.0
    """
    used = rows[:MOST].detach().to(torch.float64, copy=True)
    return float(directions_from(used, vector_norm(used, dim=-1), torch.promote_types(rows.dtype, torch.float32)))


def directions_from(rows: Tensor, norms: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the same per stack of rows, in double precision and overwritten, without waiting for the device.

    norms: of the rows. dtype: of the cosines.
    """
    rows, norms = rows[..., :MOST, :], norms[..., :MOST]
    fine = torch.isfinite(norms) & (norms > 0)
    unit = rows.mul_(torch.where(fine, 1 / norms, 0.0)[..., None]).to(dtype).nan_to_num_(0.0)
    cosines, count = unit @ unit.mT, fine.sum(-1)
    cosines.diagonal(dim1=-2, dim2=-1).zero_()
    squares = vector_norm(cosines, dim=(-2, -1)).double().square()
    number = (count * (count - 1) / squares.clamp_min(1e-300)).clamp_max(float(rows.shape[-1]))
    return torch.where(count < FEWEST, math.nan, number)


def passing(measured: Measured) -> tuple[Array, Array]:
    """Return the directions of the gradients and of the pre-activations per layer, NaN where outputs are no vectors."""
    outputs = [call.output.detach() for call in measured.calls]
    return directions_per_layer(measured.deltas), directions_per_layer(outputs)


def directions_per_layer(tensors: Sequence[Tensor]) -> Array:
    """Return the directions of each tensor, NaN where its rows are no vectors."""
    directions = np.full(len(tensors), math.nan)
    vectors = [place for place, each in enumerate(tensors) if each.dim() == 2 and not each.is_complex()]
    for places, stack in double_stacks([tensors[place][:MOST] for place in vectors]):
        dtype = torch.promote_types(tensors[vectors[places[0]]].dtype, torch.float32)
        spanned = directions_from(stack, vector_norm(stack, dim=-1), dtype)
        directions[[vectors[place] for place in places]] = spanned.cpu().numpy()
    return directions

"""How many directions the examples of a batch still span at each layer: their gradients, and their signals."""

import math

import numpy as np
import torch
from torch import Tensor

from gradwalk.activations import Array
from gradwalk.torch.measurement import Measured

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
    """Return the same as a tensor without dimensions, without waiting for the device."""
    used = rows[:_MOST].detach().double()
    norms = used.norm(dim=1, keepdim=True)
    fine = torch.isfinite(norms) & (norms > 0)
    unit = torch.where(fine, used / norms, 0.0)
    count = fine.sum()
    squares = (unit @ unit.T).square().sum() - count
    number = (count * (count - 1) / squares.clamp_min(1e-300)).clamp_max(float(rows.shape[1]))
    return torch.where(count < FEWEST, math.nan, number)


def passing(measured: Measured) -> tuple[Array, Array]:
    """Return the directions of the gradients and of the pre-activations per layer, NaN where outputs are no vectors."""
    outputs = [call.output.detach() for call in measured.calls]
    return np.array(_per_layer(measured.deltas, len(outputs))), np.array(_per_layer(outputs, len(outputs)))


def _per_layer(tensors: list[Tensor], layers: int) -> list[float]:
    if len(tensors) != layers:
        return [math.nan] * layers
    return [directions_of(each) if each.dim() == 2 and not each.is_complex() else math.nan for each in tensors]

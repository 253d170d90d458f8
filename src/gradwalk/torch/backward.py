"""The gradients at the outputs of a network's layers, also where they leave the range of floating point."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from gradwalk.activations import Array
from gradwalk.torch.norms import RowNorms, doubled, row_norms


@dataclass(frozen=True, eq=False)
class Gradients:
    """The gradients at the outputs that the loss depends on.

    places: their indices among all outputs. deltas: the gradients, each smaller than the true one by the factor
    exp(shift). norms: of their rows. lost: the index below which a plain backward pass has no normal floating-point
    numbers, -1 if there is none. others: the gradients at other tensors, None where the loss does not depend on one.
    """

    places: list[int]
    deltas: list[Tensor]
    norms: RowNorms
    shifts: Array
    lost: int
    others: list[Tensor | None]


def walk_back(
    loss: Tensor, outputs: Sequence[Tensor], where: str, names: Sequence[str], others: Sequence[Tensor | GradientEdge]
) -> Gradients:
    """Return the gradients of the loss at all outputs on its way; they are continued past floating point.

    The gradients at the others come from the same backward pass and are not continued.
    """
    targets: list[Any] = [*outputs, *others]
    try:
        plain = torch.autograd.grad(loss, targets, allow_unused=True, retain_graph=True)
    except RuntimeError as error:
        if "checkpoint" not in str(error).lower():
            raise
        raise ValueError(
            f"{where}: not measured: a reentrant checkpoint hides the gradient at its layers; pass use_reentrant=False"
        ) from error
    places = [place for place, delta in enumerate(plain[: len(outputs)]) if delta is not None]
    if not places and all(each is None for each in plain):
        raise ValueError(f"{where}: the loss has no gradient at any weight layer")
    deltas = [plain[place] for place in places]
    if places and not any(bool(torch.count_nonzero(delta)) for delta in reversed(deltas)):
        raise ValueError(f"{where}: the gradient of the loss is zero at the output layer {names[places[-1]]!r}")
    norms = row_norms(deltas)
    lowest = _lowest(held := _are_held(deltas, norms))
    shifts = _continued([outputs[place] for place in places], deltas, held)
    if lowest:
        norms = row_norms(deltas)
    return Gradients(places, deltas, norms, shifts, lowest - 1, list(plain[len(outputs) :]))


def _continued(outputs: list[Tensor], deltas: list[Tensor], held: list[bool]) -> Array:
    """Replace, in place, the gradients that floating point does not hold; return the log factors.

    Each round restarts the backward pass from a rescaled gradient and reaches some layers further down.
    """
    shifts, lowest = np.zeros(len(deltas)), _lowest(held)
    while 0 < lowest < len(deltas):
        restarted = _restarted(outputs, deltas, shifts, lowest)
        if restarted is None:
            break
        below, shift = restarted
        for place in range(lowest):
            if not held[place]:
                deltas[place], shifts[place] = below[place], shift
        reached = _lowest(_are_held(deltas[:lowest], row_norms(deltas[:lowest])))
        if reached >= lowest:
            break
        lowest = reached
    return shifts


def _restarted(
    outputs: list[Tensor], deltas: list[Tensor], shifts: Array, lowest: int
) -> tuple[list[Tensor], float] | None:
    """Return the gradients below a rescaled one, and the log of the factor by which they are too small.

    A restart from one output is right only if all paths to the loss lead through it. The gradient at `lowest` is known
    both ways and shows whether that is so; if it is not, the result is None.
    """
    start = min(lowest + 1, len(outputs) - 1)
    size = float(torch.linalg.vector_norm(doubled(deltas[start])))
    seed = (deltas[start] / size) if deltas[start].is_complex() else (deltas[start].double() / size)
    lower = outputs[:start]
    gradients = torch.autograd.grad(
        outputs[start], lower, seed.to(deltas[start].dtype), retain_graph=True, allow_unused=True
    )
    below = [
        torch.zeros_like(output) if delta is None else delta for delta, output in zip(gradients, lower, strict=True)
    ]
    shift = float(shifts[start]) + math.log(size)
    if start > lowest and not _agree(below[lowest], shift, deltas[lowest], float(shifts[lowest])):
        return None
    return below, shift


def _agree(one: Tensor, log_one: float, other: Tensor, log_other: float) -> bool:
    sizes = [float(torch.linalg.vector_norm(doubled(delta))) for delta in (one, other)]
    return min(sizes) > 0 and abs(math.log(sizes[0] / sizes[1]) + log_one - log_other) < 0.05


def _lowest(held: Sequence[bool]) -> int:
    """Return the lowest index from which on all gradients are normal floating-point numbers."""
    return next((place + 1 for place in reversed(range(len(held))) if not held[place]), 0)


def _are_held(deltas: Sequence[Tensor], norms: RowNorms) -> list[bool]:
    """Return which gradients are normal floating-point numbers, by the row with the largest norm."""
    units = [max(delta.shape[1:].numel(), 1) for delta in deltas]
    least = [10 * torch.finfo(delta.dtype).tiny for delta in deltas]
    sizes = norms.largest() / np.sqrt(units)
    return [low < size < math.inf for low, size in zip(least, sizes.tolist(), strict=True)]

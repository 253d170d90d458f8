"""The gradients at the outputs of a network's layers, also where they leave the range of floating point."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gradwalk.activations import Array


@dataclass(frozen=True, eq=False)
class Gradients:
    """The gradients at the outputs that the loss depends on.

    places: their indices among all outputs. deltas: the gradients, each smaller than the true one by the factor
    exp(shift). lost: the index below which a plain backward pass has no normal floating-point numbers, -1 if there is
    none.
    """

    places: list[int]
    deltas: list[Tensor]
    shifts: Array
    lost: int

    def log_norms(self) -> Array:
        """Return ln(|delta_d| / |delta_D|), one row per example with a gradient at the last output."""
        with np.errstate(divide="ignore"):
            norms = np.stack([_norms(delta) for delta in self.deltas], axis=1)
            logs = np.log(norms[norms[:, -1] > 0]) + self.shifts
        return np.asarray(logs - logs[:, -1:])


def walk_back(loss: Tensor, outputs: Sequence[Tensor], where: str, names: Sequence[str]) -> Gradients:
    """Return the gradients of the loss at all outputs on its way; they are continued past floating point."""
    plain = torch.autograd.grad(loss, list(outputs), allow_unused=True, retain_graph=True)
    places = [place for place, delta in enumerate(plain) if delta is not None]
    if not places:
        raise ValueError(f"{where}: the loss has no gradient at any weight layer")
    deltas = [delta for delta in plain if delta is not None]
    if float(deltas[-1].detach().abs().max()) == 0:
        raise ValueError(f"{where}: the gradient of the loss is zero at the output layer {names[places[-1]]!r}")
    lowest = _lowest_held(deltas)
    shifts = _continued([outputs[place] for place in places], deltas, lowest)
    return Gradients(places, deltas, shifts, lowest - 1)


def _continued(outputs: list[Tensor], deltas: list[Tensor], lowest: int) -> Array:
    """Replace, in place, the gradients below `lowest` that floating point cannot hold; return the log factors.

    Each round restarts the backward pass from a rescaled gradient and reaches some layers further down.
    """
    shifts = np.zeros(len(deltas))
    held = [_is_held(delta) for delta in deltas]
    while 0 < lowest < len(deltas):
        restarted = _restarted(outputs, deltas, shifts, lowest)
        if restarted is None:
            break
        below, shift = restarted
        for place in range(lowest):
            if not held[place]:
                deltas[place], shifts[place] = below[place], shift
        reached = _lowest_held(deltas[:lowest])
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
    size = float(torch.linalg.vector_norm(deltas[start].double()))
    seed = (deltas[start].double() / size).to(deltas[start].dtype)
    lower = outputs[:start]
    gradients = torch.autograd.grad(outputs[start], lower, seed, retain_graph=True, allow_unused=True)
    below = [
        torch.zeros_like(output) if delta is None else delta for delta, output in zip(gradients, lower, strict=True)
    ]
    shift = float(shifts[start]) + math.log(size)
    if start > lowest and not _agree(below[lowest], shift, deltas[lowest], float(shifts[lowest])):
        return None
    return below, shift


def _agree(one: Tensor, log_one: float, other: Tensor, log_other: float) -> bool:
    sizes = [float(_norms(delta).max()) for delta in (one, other)]
    return min(sizes) > 0 and abs(math.log(sizes[0] / sizes[1]) + log_one - log_other) < 0.05


def _lowest_held(deltas: list[Tensor]) -> int:
    """Return the lowest index from which on all gradients are normal floating-point numbers."""
    return next((place + 1 for place in reversed(range(len(deltas))) if not _is_held(deltas[place])), 0)


def _is_held(delta: Tensor) -> bool:
    largest = float(_norms(delta).max()) / math.sqrt(max(delta[:1].numel(), 1))
    return 10 * torch.finfo(delta.dtype).tiny < largest < math.inf


def _norms(delta: Tensor) -> Array:
    return np.asarray(example_norms(delta).cpu().numpy())


def example_norms(delta: Tensor) -> Tensor:
    """Return the norm of each example's gradient in double precision, so that squares of small numbers survive."""
    rows = delta.detach().reshape(len(delta), -1) if delta.dim() else delta.detach().reshape(1, 1)
    norms: Tensor = torch.linalg.vector_norm(rows.double(), dim=1)
    return norms

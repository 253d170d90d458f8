"""The operations of a pass in compiled code, which a program runs in one call; activations that it does not have are
computed by NumPy and torch in between.
"""

from collections.abc import Sequence
from itertools import groupby

import torch

from gradwalk.activations import Activation
from gradwalk.compiled import running
from gradwalk.compiled.programs import Operation, Program
from gradwalk.compiled.vectors import ROWS
from gradwalk.nets.libraries import Library, Steps
from gradwalk.nets.pointwise import Pointwise

# A thread is worth its handover if its part of a forward pass takes four times as many operations as its part of a
# product that NumPy computes (`THREAD_FLOPS`); not tuned.
_SHARE = 0.25

_CODES = {
    "tanh": (running.TANH, running.TANH_SLOPE),
    "relu": (running.RELU, running.RELU_SLOPE),
    "leaky_relu": (running.LEAKY_RELU, running.LEAKY_RELU_SLOPE),
}


class _Compiled(Pointwise):
    """An activation whose slope follows from its output."""

    def __init__(self, family: str, parameter: float) -> None:
        self._codes, self._parameter = _CODES[family], parameter

    def forward(self, a: torch.Tensor) -> Operation:
        return Operation(self._codes[0], _size(a), a, parameter=self._parameter)

    def backward(self, delta: torch.Tensor, h: torch.Tensor) -> Operation:
        return Operation(self._codes[1], _size(delta), delta, (h,), self._parameter)

    def forward_(self, a: torch.Tensor) -> None:
        self.forward(_matrices(a))()

    def backward_(self, delta: torch.Tensor, h: torch.Tensor, a: torch.Tensor | None) -> None:
        self.backward(_matrices(delta), _matrices(h))()


class CompiledLibrary(Library):
    """Plans operations that are joined to programs."""

    def __init__(self) -> None:
        super().__init__(by_numpy=True)

    @property
    def name(self) -> str:
        """What computes."""
        return "compiled"

    def pointwise(self, activation: Activation) -> Pointwise:
        """Return the in-place form of an activation."""
        f, parameter = super().pointwise(activation), activation.parameter or 0.0
        if activation.inner is not None or activation.family not in _CODES or f.needs_input:
            return f
        return _Compiled(activation.family, parameter)

    def affine(self, h: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor) -> Steps:
        """Put h W + b into `out`; the bias is (networks, 1, out)."""
        return [Operation(running.AFFINE, (h.shape[1], *weight.shape[1:]), out, (h, weight, bias))]

    def forward(self, f: Pointwise, a: torch.Tensor) -> Steps:
        """Replace a by f(a)."""
        return [f.forward(a)] if isinstance(f, _Compiled) else super().forward(f, a)

    def backward(self, delta: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> Steps:
        """Put delta W^T into `out`."""
        size = delta.shape[1], weight.shape[2], weight.shape[1]
        return [Operation(running.BACKWARD, size, out, (delta, weight))]

    def slope(self, f: Pointwise, delta: torch.Tensor, h: torch.Tensor, a: torch.Tensor | None) -> Steps:
        """Multiply delta by f'(a), where h = f(a)."""
        return [f.backward(delta, h)] if isinstance(f, _Compiled) else super().slope(f, delta, h, a)

    def gradients(
        self, h: torch.Tensor, delta: torch.Tensor, weights: torch.Tensor, biases: torch.Tensor, norms: torch.Tensor
    ) -> Steps:
        """Compute the gradients of a block of layers, see `Library.gradients`; the last layer's first, like delta."""
        steps: Steps = []
        for layer in reversed(range(len(h))):
            own, out = weights[layer], delta[layer]
            size = own.shape[1], out.shape[1], own.shape[2]
            steps.append(Operation(running.GRADIENT, size, own, (h[layer], out)))
            steps.append(Operation(running.SUMS, _size(out), biases[layer], (out,)))
            steps.append(Operation(running.NORM, _size(own), norms[layer].view(-1, 1, 1), (own,)))
        return steps

    def cuts(self, rows: int, parts: int, widths: Sequence[int]) -> list[int]:
        """Return where the rows of a forward pass are cut: anywhere, but best at whole blocks."""
        blocks = -(-rows // ROWS)
        parts = max(1, min(parts, blocks))
        return [*(blocks * part // parts * ROWS for part in range(parts)), rows]

    def flops(self, widths: Sequence[int], rows: int) -> float:
        """Return a quarter of the operations of a whole pass, in which no thread waits for Python's lock."""
        return _SHARE * (len(widths) - 1) * super().flops(widths, rows)

    def joined(self, steps: Steps) -> Steps:
        """Return the steps with those that follow each other joined to programs."""
        joined: Steps = []
        for kind, group in groupby(steps, key=type):
            together = list(group)
            joined += (
                [Program([each for each in together if isinstance(each, Operation)])] if kind is Operation else together
            )
        return joined


def _size(matrices: torch.Tensor) -> tuple[int, int, int]:
    return matrices.shape[1], 1, matrices.shape[2]


def _matrices(numbers: torch.Tensor) -> torch.Tensor:
    """Return a vector as a matrix of one network and one row."""
    return numbers if numbers.ndim == 3 else numbers.view(1, 1, -1)

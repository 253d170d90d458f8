"""The operations of a pass as steps, computed by torch alone or by NumPy and torch."""

from collections.abc import Sequence
from functools import partial

import torch

from gradwalk.activations import Activation
from gradwalk.nets import products
from gradwalk.nets.crew import Step
from gradwalk.nets.pointwise import Pointwise, pointwise
from gradwalk.nets.widths import layer_flops

Steps = list[Step]


class Library:
    """Plans operations on matrices (networks, rows, columns); `by_numpy`: with NumPy where it is faster."""

    def __init__(self, by_numpy: bool) -> None:
        self.by_numpy = by_numpy

    @property
    def name(self) -> str:
        """What computes."""
        return "numpy" if self.by_numpy else "torch"

    def pointwise(self, activation: Activation) -> Pointwise:
        """Return the in-place form of an activation."""
        return pointwise(activation, self.by_numpy)

    def affine(self, h: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor) -> Steps:
        """Put h W + b into `out`; the bias is (networks, 1, out)."""
        return products.affine(h, weight, bias, out, self.by_numpy)

    def forward(self, f: Pointwise, a: torch.Tensor) -> Steps:
        """Replace a by f(a)."""
        return [] if f.is_identity else [partial(f.forward_, a)]

    def backward(self, delta: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> Steps:
        """Put delta W^T into `out`."""
        return products.backward(delta, weight, out)

    def slope(self, f: Pointwise, delta: torch.Tensor, h: torch.Tensor, a: torch.Tensor | None) -> Steps:
        """Multiply delta by f'(a), where h = f(a)."""
        return [] if f.is_identity else [partial(f.backward_, delta, h, a)]

    def gradients(
        self, h: torch.Tensor, delta: torch.Tensor, weights: torch.Tensor, biases: torch.Tensor, norms: torch.Tensor
    ) -> Steps:
        """Compute the gradients of a block of layers, whose number is the first axis of everything.

        weights: for h^T delta; biases: (layers, networks, 1, out) for the sums of delta; norms: (layers, networks) for
        the norms of the former.
        """
        return [
            *products.gradient(h, delta, weights, self.by_numpy),
            partial(torch.sum, delta, 2, keepdim=True, out=biases),
            partial(torch.linalg.vector_norm, weights, dim=(2, 3), out=norms),  # while they are in the cache
        ]

    def cuts(self, rows: int, parts: int, widths: Sequence[int]) -> list[int]:
        """Return where the rows of a forward pass are cut into at most that many parts, which changes no bit."""
        return products.cuts(rows, parts, products.shapes(tuple(widths)), self.by_numpy)

    def flops(self, widths: Sequence[int], rows: int) -> float:
        """Return the operations between two moments at which a thread waits for Python's lock: those of a product."""
        return layer_flops(widths, rows)

    def joined(self, steps: Steps) -> Steps:
        """Return steps that do the same in fewer calls, where there are any."""
        return steps

"""`Leak`, a module that lets part of the signal pass an activation unchanged."""

import torch
from torch import nn

from gradwalk import checks


class Leak(nn.Module):
    """f_s(a) = s a + (1 - s) f(a): the activation with a leak s, from 0, which is f itself, to below 1.

    A residual branch inside the layer: the nearer s is to 1, the more directions of inputs and gradients pass a deep
    network, and the nearer the network is to a linear one. `Leak(nn.ReLU(), s)` is `nn.LeakyReLU(s)`.

    Args:
        activation: the module of f; it may work in place.
        leak: the share s.

    Raises:
        ValueError: if the leak is not at least 0 and below 1.
        TypeError: if the activation is not a module.

    >>> Leak(nn.GELU(), leak=0.8)(torch.tensor([1.0, -1.0]))
    tensor([ 0.9683, -0.8317])
    """

    activation: nn.Module
    leak: float

    def __init__(self, activation: nn.Module, leak: float) -> None:
        super().__init__()
        if not isinstance(activation, nn.Module):
            raise TypeError(f"Leak: activation must be a module such as nn.GELU(), got activation={activation!r}")
        self.activation = activation
        self.leak = checks.rate("Leak", "leak", leak)

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        """Return s a + (1 - s) f(a)."""
        passed = self.leak * a  # first: the activation may work in place
        bent: torch.Tensor = self.activation(a)
        return passed + (1 - self.leak) * bent

    def __repr__(self) -> str:
        return f"Leak({self.activation}, leak={self.leak:g})"

"""`Steady`, a module that makes an unsteady activation usable in deep networks."""

import torch
from torch import nn

from gradwalk import checks


class Steady(nn.Module):
    """f_s(a) = f(s a) / s: the activation with its slope at 0 kept, nearly homogeneous for a large scale s.

    With gelu, silu and mish the signal of a deep network dies or explodes whatever the gain; scaled, only that of far
    deeper networks does. At scale=100 gelu is close to a ReLU with a rounded corner.

    Args:
        activation: the module of f.
        scale: the factor s.

    Raises:
        ValueError: if the scale is not positive and finite.
        TypeError: if the activation is not a module.

    >>> Steady(nn.GELU(), scale=100.0)(torch.tensor([1.0, -1.0]))
    tensor([1., -0.])
    """

    activation: nn.Module
    scale: float

    def __init__(self, activation: nn.Module, scale: float = 100.0) -> None:
        super().__init__()
        if not isinstance(activation, nn.Module):
            raise TypeError(f"Steady: activation must be a module such as nn.GELU(), got activation={activation!r}")
        self.activation = activation
        self.scale = checks.positive("Steady", "scale", scale)

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        """Return f(s a) / s."""
        scaled: torch.Tensor = self.activation(a * self.scale)
        return scaled / self.scale

    def __repr__(self) -> str:
        return f"Steady({self.activation}, scale={self.scale:g})"

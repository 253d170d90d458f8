"""`Elementwise`, a module for activations that torch does not have; it computes them with NumPy."""

from typing import Any

import numpy as np
import torch
from torch import nn

from gradwalk.activations import Activation, Function


class Elementwise(nn.Module):
    """An activation without a counterpart in torch, such as erf, sin and those registered without `torch=`.

    Args:
        activation: computed by NumPy, on the host.

    >>> from gradwalk import activation
    >>> Elementwise(activation("sin"))(torch.zeros(2))
    tensor([0., 0.])
    """

    activation: Activation

    def __init__(self, activation: Activation) -> None:
        super().__init__()
        self.activation = activation

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        """Return f(a)."""
        result: torch.Tensor = _Numpy.apply(a, self.activation)  # type: ignore[no-untyped-call]
        return result

    def __repr__(self) -> str:
        return f"Elementwise({self.activation.name})"


class _Numpy(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, a: torch.Tensor, f: Activation) -> torch.Tensor:
        context.save_for_backward(a)
        context.f = f
        return through_numpy(f.f, a.detach())

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        (a,) = context.saved_tensors
        return gradients[0] * through_numpy(context.f.derivative, a.detach()), None


def through_numpy(function: Function, a: torch.Tensor) -> torch.Tensor:
    """Return a NumPy function of a tensor, on the tensor's device and with its dtype."""
    values = np.asarray(function(a.cpu().numpy()))
    return torch.from_numpy(values).to(device=a.device, dtype=a.dtype)

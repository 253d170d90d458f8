"""The loss that users pass: a function of the model's output."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from gradwalk.checks import shown

Loss = Callable[[Any], Tensor]


def check_function(loss_fn: object, where: str) -> None:
    """Raise a TypeError if the loss is no function."""
    if not callable(loss_fn):
        raise TypeError(f"{where}: loss_fn must be a function of the model's output, got loss_fn={shown(loss_fn)}")


def one_value(loss: Any, where: str) -> Tensor:
    """Return what a loss function returned if it is a tensor with one value; raise a ValueError otherwise."""
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        shape = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        raise ValueError(f"{where}: loss_fn(output) must return a tensor with one value, got {shape}")
    return loss

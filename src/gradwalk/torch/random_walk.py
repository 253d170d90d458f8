"""`random_walk_`, an initialiser for one tensor with the interface of those in `torch.nn.init`."""

import math

import torch
from torch import nn

from gradwalk import activations, checks
from gradwalk.activations import Activation
from gradwalk.checks import Weights
from gradwalk.gains import gain as unbiased_gain


def random_walk_(
    tensor: torch.Tensor,
    activation: str | Activation = "linear",
    *,
    gain: float | None = None,
    weights: Weights = "gaussian",
    depth: int | None = None,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """Fill `tensor` in place with weights of standard deviation g / sqrt(fan_in), eq. 10, and return it.

    Orthogonal weights have orthogonal rows, or columns if there are fewer of those, scaled so that their entries have
    the same variance.

    Args:
        tensor: of shape (out, in) or (out, in, *kernel).
        activation: the one whose output the layer reads, "linear" for the first layer.
        gain: the factor g (default: the unbiased gain of the activation).
        weights: "gaussian" or "orthogonal".
        depth: the number of layers that the gradient walks over; all activations but linear, relu and leaky_relu need
            it.
        generator: draws the weights (default: torch's global one).

    Returns:
        The tensor.

    Raises:
        ValueError: if the tensor has fewer than 2 dimensions, or the depth is missing.
        TypeError: if it holds no floating-point numbers.

    >>> w = random_walk_(torch.empty(300, 100), "relu", generator=torch.Generator().manual_seed(0))
    >>> round(w.std().item() * 100**0.5, 2)
    1.43
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"random_walk_: tensor must be a torch.Tensor, got {type(tensor).__name__}")
    if tensor.ndim < 2:
        raise ValueError(f"random_walk_: tensor must be (out, in) or (out, in, *kernel), got {tuple(tensor.shape)}")
    if not tensor.is_floating_point():
        raise TypeError(f"random_walk_: tensor must hold floating-point numbers, got {tensor.dtype}")
    checks.one_of("random_walk_", "weights", weights, checks.WEIGHTS)
    f = activations.activation(activation)
    if gain is not None:
        checks.positive("random_walk_", "gain", gain)
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(f"random_walk_: generator must be a torch.Generator, got {type(generator).__name__}")
    if tensor.numel() == 0:
        return tensor
    fan_in = tensor[0].numel()
    scale = unbiased_gain(f, fan_in, depth, weights=weights) if gain is None else gain
    std = scale / math.sqrt(fan_in)
    _check_range(tensor, std)
    with torch.no_grad():
        fill_(tensor, std, weights, generator)
    return tensor


def _check_range(tensor: torch.Tensor, std: float) -> None:
    """Raise if weights of this standard deviation are too large for the tensor's dtype, or too small not to be 0."""
    largest, limits = std * max(10.0, math.sqrt(tensor.numel())), torch.finfo(tensor.dtype)
    if not limits.tiny <= std <= largest <= limits.max:
        raise ValueError(
            f"random_walk_: weights of standard deviation {std:.3g} leave the range of {tensor.dtype}, "
            f"{limits.tiny:.3g} to {limits.max:.3g}; choose another gain or dtype"
        )


def fill_(tensor: torch.Tensor, std: float, weights: Weights, generator: torch.Generator | None) -> None:
    """Fill a tensor, one row per output, with weights whose entries have this standard deviation."""
    if weights == "gaussian":
        tensor.normal_(0.0, std, generator=generator)
        return
    rows, columns = len(tensor), tensor[0].numel()
    exact = torch.float64 if tensor.dtype == torch.float64 else torch.float32  # there is no QR in half precision
    matrix = torch.empty(rows, columns, dtype=exact, device=tensor.device)
    nn.init.orthogonal_(matrix, std * math.sqrt(max(rows, columns)), generator=generator)
    tensor.copy_(matrix.view(tensor.shape))

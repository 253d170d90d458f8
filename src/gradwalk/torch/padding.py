"""What zero padding takes from the gradient: the energy that falls outside the input (DESIGN: zero padding).

Each position of delta hands its energy to the taps of the kernel in equal shares, and what falls on the padding is
lost. Energy gathers in the middle, so that deep in a network less is lost than the mean share of taps.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from gradwalk.torch.layers import WeightLayer
from gradwalk.torch.weight_layers import is_dense, is_padded, weight_of


def log_losses(layers: Sequence[WeightLayer]) -> dict[str, float]:
    """Return, per padded convolution of known size, ln of the factor by which it shortens the gradient, on average.

    `layers` are in the order they run. Where a layer is read by several, their energies are added; where it is read by
    none of known size, the energy is spread evenly.
    """
    maps: dict[str, list[Tensor]] = {}
    losses: dict[str, float] = {}
    for layer in reversed(layers):
        if layer.sizes is None or is_dense(layer.module):
            continue
        axes = weight_of(layer.module).dim() - 2
        above = _gathered(maps.get(layer.name, []), layer.sizes.returned[-axes:])
        below = _handed_back(layer.module, above, layer.sizes.read[-axes:]) if is_padded(layer.module) else None
        if below is not None:
            losses[layer.name] = 0.5 * math.log(float(below.sum() / above.sum()))
        for name in layer.reads:
            maps.setdefault(name, []).append(above if below is None else below)
    return losses


def _gathered(maps: Sequence[Tensor], size: Sequence[int]) -> Tensor:
    """Return the energy per position of a layer's output, 1 in all, from the maps of the layers that read it."""
    fitting = [each for each in maps if each.dim() == len(size)]
    if not fitting:
        return torch.full(tuple(size), 1 / math.prod(size), dtype=torch.float64)
    resized = [_resized(each, size) for each in fitting]
    total = torch.stack([each / each.sum() for each in resized]).mean(dim=0)
    return total / total.sum()


def _resized(energy: Tensor, size: Sequence[int]) -> Tensor:
    """Return a map on another grid, as pooling between the layers needs it."""
    if tuple(energy.shape) == tuple(size) or energy.dim() > 3:
        return energy if tuple(energy.shape) == tuple(size) else torch.ones(tuple(size), dtype=energy.dtype)
    return nn.functional.interpolate(energy[None, None], size=tuple(size))[0, 0]


def _handed_back(module: nn.Module, energy: Tensor, size: Sequence[int]) -> Tensor:
    """Return the energy per position of a convolution's input."""
    kernel: Sequence[int] = module.kernel_size  # type: ignore[assignment]
    dilation: Sequence[int] = module.dilation  # type: ignore[assignment]
    shares = torch.full((1, 1, *kernel), 1 / math.prod(kernel), dtype=torch.float64)
    spread = getattr(nn.functional, f"conv_transpose{len(kernel)}d")
    whole = spread(energy[None, None], shares, stride=module.stride, dilation=dilation)[0, 0]
    for axis, (length, left) in enumerate(zip(size, _left(module, kernel, dilation), strict=True)):
        whole = whole.narrow(axis, left, min(length, whole.shape[axis] - left))
    return whole  # type: ignore[no-any-return]


def _left(module: nn.Module, kernel: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """Return how many positions of padding there are before the input, per axis."""
    if module.padding == "same":
        return [d * (k - 1) // 2 for k, d in zip(kernel, dilation, strict=True)]
    return [int(p) for p in module.padding]  # type: ignore[union-attr]


def unknown_losses(layers: Sequence[WeightLayer], known: Mapping[str, float]) -> set[str]:
    """Return the padded convolutions whose loss is not known, because the model was not run."""
    return {layer.name for layer in layers if is_padded(layer.module) and layer.name not in known}

"""What the modules of a network are to the walk: layers with weights, activations, and what lies between."""

import re

import torch
from torch import nn

from gradwalk.torch.counterparts import counterpart

WEIGHT_LAYERS = (
    nn.Linear,
    nn.Conv1d,
    nn.Conv2d,
    nn.Conv3d,
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def fan_in(module: nn.Module) -> int:
    """Return how many inputs an output unit sums: channels over groups, times the kernel for a convolution.

    A transposed convolution of stride s spreads its kernel over s times as many outputs a dimension, so that an output
    unit sums prod(kernel) / prod(stride) positions on average; that average is taken.
    """
    weight = module.weight
    assert isinstance(weight, torch.Tensor)
    if is_conv1d(module):
        return len(weight)
    if not isinstance(module, TRANSPOSED):
        return weight.shape[1:].numel()
    positions = weight.shape[2:].numel() / torch.Size(module.stride).numel()
    return max(1, round(module.in_channels // module.groups * positions))


def is_conv1d(module: nn.Module) -> bool:
    """Return whether a module is the Conv1D of transformers: a Linear whose weight is (in, out)."""
    return type(module).__name__ == "Conv1D" and hasattr(module, "nf")


def role_of(module: nn.Module) -> str:
    """Return what a module is to the walk; "" for one that has to be looked into."""
    if isinstance(module, WEIGHT_LAYERS):
        return "weights"
    kind = type(module)
    if kind in (nn.Sequential, nn.ModuleList):
        return ""
    if is_conv1d(module):
        return "weights"
    if counterpart(module) is not None:
        return "activation"
    home = kind.__module__
    if isinstance(module, nn.RNNBase | nn.RNNCellBase):
        return "recurrent"
    if re.search(r"(Attention|Attn)$", kind.__name__) or home == "torch.nn.modules.transformer":
        return "attention"
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return "embedding"
    if "norm" in kind.__name__.lower() and not any(isinstance(each, WEIGHT_LAYERS) for each in module.modules()):
        return "norm"
    if home == "torch.nn.modules.pooling":
        return "pooling"
    if home in _PASSING_HOMES or kind.__name__ in ("DropPath", "StochasticDepth"):
        return "passing"
    return ""


_PASSING_HOMES = {
    f"torch.nn.modules.{part}" for part in ("dropout", "flatten", "padding", "upsampling", "pixelshuffle")
}

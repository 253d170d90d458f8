"""Layers with weights: Linear, the convolutions, and the Conv1D of transformers; their fan-in and their weights."""

import torch
from torch import Tensor, nn

from gradwalk.torch.undisturbed import undisturbed

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
KINDS = (nn.Linear, *_CONVOLUTIONS, *TRANSPOSED)
_FORWARDS = frozenset(kind.forward for kind in KINDS)
NAMES = "Linear, Conv or ConvTranspose"


def is_weight_layer(module: nn.Module) -> bool:
    """Return whether a module is a layer whose weights the gradient walks over."""
    return isinstance(module, KINDS) or _is_conv1d(module)


def computes_its_weights(module: nn.Module) -> bool:
    """Return whether a subclass has a forward of its own, as those that standardise or mask their weights have."""
    kind = type(module)
    return not _is_conv1d(module) and kind.forward not in _FORWARDS


def is_dense(module: nn.Module) -> bool:
    """Return whether a weight layer multiplies the last dimension of its input with a matrix."""
    return isinstance(module, nn.Linear) or _is_conv1d(module)


def weight_layers(model: nn.Module) -> dict[nn.Module, str]:
    """Return the weight layers of a model with their names; the model itself is called by its class."""
    return {module: name or type(module).__name__ for name, module in model.named_modules() if is_weight_layer(module)}


def fan_in(module: nn.Module) -> int:
    """Return how many inputs an output unit sums: channels per group, times the kernel for a convolution.

    A transposed convolution of stride s spreads its kernel over s times as many outputs per dimension, so that an
    output unit sums prod(kernel) / prod(stride) positions on average; the result is that average, rounded.

    >>> fan_in(nn.Conv2d(8, 4, 3, groups=2)), fan_in(nn.ConvTranspose1d(8, 4, 6, stride=3))
    (36, 16)
    """
    if type(module) is nn.Linear:
        return module.in_features
    weight = weight_of(module)
    if not isinstance(module, TRANSPOSED):
        return len(weight) if _is_conv1d(module) else weight.shape[1:].numel()
    positions = weight.shape[2:].numel() / torch.Size(module.stride).numel()
    return max(1, round(module.in_channels // module.groups * positions))


def is_padded(module: nn.Module) -> bool:
    """Return whether a convolution pads its input with zeros, so that its border reads less than its fan-in."""
    if not isinstance(module, _CONVOLUTIONS) or module.padding_mode != "zeros":
        return False
    padding = module.padding
    return padding == "same" if isinstance(padding, str) else any(padding)


def weight_of(module: nn.Module) -> Tensor:
    """Return the weight of a layer, also where a parametrisation computes it."""
    weight = module._parameters.get("weight")
    if weight is None:
        with torch.no_grad(), undisturbed(list(module.modules()), evaluating=True):  # spectral norms change buffers
            computed = module.weight
        assert isinstance(computed, Tensor)
        return computed.detach()
    return weight.detach()


def shape_of(module: nn.Module) -> tuple[int, ...]:
    """Return the shape of a layer's weight."""
    weight = module._parameters.get("weight")
    return tuple(weight_of(module).shape if weight is None else weight.shape)


def output_rows(module: nn.Module, weight: Tensor) -> Tensor:
    """Return a view of a weight, or of one group of it, with one row per output channel."""
    return weight.transpose(0, 1) if isinstance(module, TRANSPOSED) or _is_conv1d(module) else weight


def channels(module: nn.Module) -> tuple[int, int]:
    """Return how many channels or features a layer reads and returns, 0 where it does not have the attributes."""
    own = vars(module)
    if "in_channels" in own:
        return own["in_channels"], own["out_channels"]
    return own.get("in_features", 0), own.get("out_features", 0)


def _is_conv1d(module: nn.Module) -> bool:
    """Return whether a module is the Conv1D of transformers: a Linear whose weight is (in, out)."""
    return type(module).__name__ == "Conv1D" and hasattr(module, "nf")

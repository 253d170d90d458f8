"""The weight layers of a plain `nn.Sequential`, read off without a trace: the usual chain, and a quick way to it."""

from collections.abc import Iterator

from torch import Tensor, nn

from gradwalk.activations import Activation
from gradwalk.torch.counterparts import counterpart
from gradwalk.torch.signals import LINEAR
from gradwalk.torch.weight_layers import KINDS, TRANSPOSED, is_padded

_READABLE = frozenset(KINDS) - frozenset(TRANSPOSED)


def read_off(model: nn.Module) -> list[tuple[str, nn.Module, Activation]] | None:
    """Return the weight layers of a chain in their order, each with the activation that it reads.

    None for a model that is not an `nn.Sequential` of activations and of torch's own layers, without padding and each
    with a weight of its own that is real and trainable: such models are traced.

    >>> net = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 2))
    >>> [(name, f.name) for name, _, f in read_off(net)]
    [('0', 'linear'), ('2', 'tanh')]
    """
    if type(model) is not nn.Sequential:
        return None
    found: list[tuple[str, nn.Module, Activation]] = []
    seen: set[int] = set()
    read = LINEAR
    for name, module in _leaves(model, ""):
        kind = type(module)
        if kind in _READABLE:
            weight = module._parameters.get("weight")
            if weight is None or id(weight) in seen or not _is_drawable(weight) or is_padded(module):
                return None
            seen.add(id(weight))
            found.append((name, module, read))
            read = LINEAR
        elif kind is not nn.Flatten:
            activation = counterpart(module)
            if activation is None or read is not LINEAR:
                return None
            read = LINEAR if activation.name == "linear" else activation
    return found


def _leaves(model: nn.Module, prefix: str) -> Iterator[tuple[str, nn.Module]]:
    for name, module in model._modules.items():
        if type(module) is nn.Sequential:
            yield from _leaves(module, f"{prefix}{name}.")
        elif module is not None:
            yield prefix + name, module


def _is_drawable(weight: Tensor) -> bool:
    return weight.requires_grad and not weight.is_meta and weight.is_floating_point()

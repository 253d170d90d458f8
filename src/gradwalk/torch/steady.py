"""The activations of torch, their counterparts in gradwalk, and `Steady`, which makes an unsteady one serviceable."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from gradwalk import activations, checks
from gradwalk.activations import Activation


class Steady(nn.Module):
    """f_s(a) = f(s a) / s: an activation with its slope kept that for a large s is nearly homogeneous.

    gelu, silu and mish let the signal of a deep network die or explode whatever the gain; scaled, they do not.
    At scale=100 gelu is close to a ReLU with a rounded corner.

    >>> Steady(nn.GELU(), scale=100.0)(torch.tensor([1.0, -1.0]))
    tensor([1., -0.])
    """

    def __init__(self, activation: nn.Module, scale: float = 100.0) -> None:
        super().__init__()
        if not isinstance(activation, nn.Module):
            raise TypeError(f"Steady: activation must be a module such as nn.GELU(), got {activation!r}")
        self.activation = activation
        self.scale = checks.positive("Steady", "scale", scale)

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        """Return f(s a) / s."""
        scaled: torch.Tensor = self.activation(a * self.scale)
        return scaled / self.scale

    def __repr__(self) -> str:
        return f"Steady({self.activation}, scale={self.scale:g})"


_MODULES: dict[type[nn.Module], Callable[[Any], str]] = {
    nn.Identity: lambda m: "linear",
    nn.ReLU: lambda m: "relu",
    nn.LeakyReLU: lambda m: f"leaky_relu({m.negative_slope!r})",
    nn.Tanh: lambda m: "tanh",
    nn.Sigmoid: lambda m: "sigmoid",
    nn.Softplus: lambda m: f"softplus({m.beta!r})",
    nn.ELU: lambda m: f"elu({m.alpha!r})",
    nn.SELU: lambda m: "selu",
    nn.GELU: lambda m: "gelu",
    nn.SiLU: lambda m: "silu",
    nn.Mish: lambda m: "mish",
    nn.Softsign: lambda m: "softsign",
    nn.Hardtanh: lambda m: "hard_tanh" if (m.min_val, m.max_val) == (-1, 1) else "",
    nn.PReLU: lambda m: f"leaky_relu({m.weight[0].item()!r})" if _alike(m.weight) else "",
}

# Modules of others, by the name of their class: they compute what torch has, by hand.
_CLASS_NAMES = {
    "GELUActivation": "gelu",
    "NewGELUActivation": "gelu",
    "FastGELUActivation": "gelu",
    "PytorchGELUTanh": "gelu",
    "GELUTanh": "gelu",
    "SiLUActivation": "silu",
    "Swish": "silu",
    "MemoryEfficientSwish": "silu",
}

# Functions and methods: the family, and the place and default of its parameter.
_FUNCTIONS: dict[str, tuple[str, str, float]] = {
    "leaky_relu": ("leaky_relu", "negative_slope", 0.01),
    "softplus": ("softplus", "beta", 1.0),
    "elu": ("elu", "alpha", 1.0),
    **{
        name: (name, "", 0.0)
        for name in ("relu", "tanh", "sigmoid", "selu", "gelu", "silu", "mish", "softsign", "erf", "sin")
    },
}


def counterpart(module: nn.Module) -> Activation | None:
    """Return the activation that a module computes, its parameter included, or None where it is none that is known.

    >>> counterpart(nn.LeakyReLU(0.2)).name, counterpart(Steady(nn.GELU(), 100.0)).name
    ('leaky_relu(0.2)', 'gelu*100')
    """
    if isinstance(module, Steady):
        inner = counterpart(module.activation)
        return None if inner is None else inner.scaled(module.scale)
    kind = type(module)
    name = _MODULES[kind](module) if kind in _MODULES else _CLASS_NAMES.get(kind.__name__, "")
    return _named(name) if name else None


def counterpart_of_function(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Activation | None:
    """Return the activation that a function or a method of tensors computes, or None; `args` begin with its input."""
    if name == "hardtanh":
        bounds = {"min_val": -1.0, "max_val": 1.0} | dict(zip(("min_val", "max_val"), args[1:3], strict=False))
        bounds |= {key: kwargs[key] for key in bounds if key in kwargs}
        return _named("hard_tanh") if bounds == {"min_val": -1.0, "max_val": 1.0} else None
    if name not in _FUNCTIONS:
        return None
    family, key, default = _FUNCTIONS[name]
    if not key:
        return _named(family)
    value = kwargs.get(key, args[1] if len(args) > 1 else default)
    return _named(f"{family}({value!r})") if isinstance(value, int | float) else None


@lru_cache(maxsize=64)  # these names are built in and cannot be registered anew
def _named(name: str) -> Activation:
    return activations.activation(name)


def _alike(weight: torch.Tensor) -> bool:
    return not weight.is_meta and bool((weight == weight[0]).all())

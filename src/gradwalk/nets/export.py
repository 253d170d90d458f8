"""A trained network as what others use: a plain `torch.nn.Sequential`, and a safetensors file of its state.

The file's header says how to build the module, so that `load_network` needs nothing else.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn

from gradwalk import files
from gradwalk.activations import Activation, activation
from gradwalk.nets.pointwise import through_numpy

_MODULES: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "softplus": nn.Softplus,
    "elu": nn.ELU,
    "selu": nn.SELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "mish": nn.Mish,
    "softsign": nn.Softsign,
    "hard_tanh": nn.Hardtanh,
    "leaky_relu": nn.LeakyReLU,
}


class Elementwise(nn.Module):
    """An activation for which torch has no module: erf, sin, and those that the user registered."""

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


def sequential(
    weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor], activations: Sequence[str]
) -> nn.Sequential:
    """Return the network of these weights (in, out) as a Sequential of its own memory; linear layers add no module.

    >>> sequential([torch.ones(2, 3), torch.ones(3, 1)], [torch.zeros(3), torch.zeros(1)], ["tanh", "linear"])
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): Tanh()
      (2): Linear(in_features=3, out_features=1, bias=True)
    )
    """
    model = _skeleton([len(weights[0]), *(each.shape[1] for each in weights)], activations)
    linears = [each for each in model if isinstance(each, nn.Linear)]
    with torch.no_grad():
        for linear, weight, bias in zip(linears, weights, biases, strict=True):
            linear.weight.copy_(weight.T)
            linear.bias.copy_(bias.reshape(-1))
    return model


def save_network(model: nn.Sequential, activations: Sequence[str], path: Path) -> None:
    """Write the state of a `sequential` to a safetensors file, atomically."""
    linears = [each for each in model if isinstance(each, nn.Linear)]
    widths = [linears[0].in_features, *(each.out_features for each in linears)]
    header = {"network": json.dumps({"widths": widths, "activations": list(activations)})}
    state = {name: each.detach().cpu().contiguous() for name, each in model.state_dict().items()}
    files.write_atomic(path, save(state, header))


def load_network(path: Path | str) -> nn.Sequential:
    """Return the network of a file that `save_network` wrote."""
    try:
        with safe_open(path, framework="pt") as file:
            network = json.loads((file.metadata() or {})["network"])
            model = _skeleton(network["widths"], network["activations"])
            model.load_state_dict({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    except (SafetensorError, KeyError, RuntimeError) as error:
        raise ValueError(f"load_network: {path} is no network that gradwalk saved ({error})") from None
    return model


def _skeleton(widths: Sequence[int], activations: Sequence[str]) -> nn.Sequential:
    modules: list[nn.Module] = []
    for fan_in, fan_out, name in zip(widths[:-1], widths[1:], activations, strict=True):
        modules.append(nn.utils.skip_init(nn.Linear, fan_in, fan_out))  # type: ignore[no-untyped-call]
        if activation(name).name != "linear":
            modules.append(_module(activation(name)))
    return nn.Sequential(*modules)


def _module(f: Activation) -> nn.Module:
    family, _, parameter = f.name.partition("(")
    if family not in _MODULES:
        return Elementwise(f)
    kind = _MODULES[family]
    return kind(float(parameter.rstrip(")"))) if parameter else kind()

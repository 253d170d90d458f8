"""Trained networks as plain `torch.nn.Sequential` modules, and as safetensors files of their state.

The file's header records how to build the module, so that `load_network` needs nothing else.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn

from gradwalk import files
from gradwalk.activations import activation
from gradwalk.nets.digests import content_digest
from gradwalk.torch import module_for


def sequential(
    weights: Sequence[torch.Tensor], biases: Sequence[torch.Tensor], activations: Sequence[str]
) -> nn.Sequential:
    """Return the network with these weights (in, out) as a Sequential with copies of them.

    A linear layer has no module for its activation.

    >>> sequential([torch.ones(2, 3), torch.ones(3, 1)], [torch.zeros(3), torch.zeros(1)], ["tanh", "linear"])
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): Tanh()
      (2): Linear(in_features=3, out_features=1, bias=True)
    )
    """
    model = _skeleton([len(weights[0]), *(weight.shape[1] for weight in weights)], activations)
    linears = [module for module in model if isinstance(module, nn.Linear)]
    with torch.no_grad():
        for linear, weight, bias in zip(linears, weights, biases, strict=True):
            linear.weight.copy_(weight.T)
            linear.bias.copy_(bias.reshape(-1))
    return model


def save_network(model: nn.Sequential, activations: Sequence[str], path: Path) -> None:
    """Write the state of a `sequential` to a safetensors file, atomically."""
    linears = [module for module in model if isinstance(module, nn.Linear)]
    widths = [linears[0].in_features, *(linear.out_features for linear in linears)]
    header = {"network": json.dumps({"widths": widths, "activations": list(activations)})}
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    files.write_atomic(path, save(state, header | {"digest": content_digest(header, state)}))


def load_network(path: Path | str) -> nn.Sequential:
    """Return the network in a file that `save_network` wrote, after comparing its content with its digest."""
    header, tensors = _read(path)
    digest = header.pop("digest", None)
    if digest is None or "network" not in header:
        raise ValueError(f"load_network: {path} is not a network that gradwalk saved")
    if digest != content_digest(header, tensors):
        raise ValueError(f"load_network: {path} is damaged (its digest does not match its content); restore a copy")
    network = json.loads(header["network"])
    model = _skeleton(network["widths"], network["activations"])
    model.load_state_dict(tensors)
    return model


def _read(path: Path | str) -> tuple[dict[str, str], dict[str, torch.Tensor]]:
    """Return the header and the tensors of a file."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return dict(file.metadata() or {}), tensors
    except (SafetensorError, RuntimeError, ValueError) as error:
        raise ValueError(f"load_network: {path} is not a network that gradwalk saved ({error})") from None


def _skeleton(widths: Sequence[int], activations: Sequence[str]) -> nn.Sequential:
    modules: list[nn.Module] = []
    for fan_in, fan_out, name in zip(widths[:-1], widths[1:], activations, strict=True):
        modules.append(nn.utils.skip_init(nn.Linear, fan_in, fan_out))  # type: ignore[no-untyped-call]
        if activation(name).name != "linear":
            modules.append(module_for(name))
    return nn.Sequential(*modules)

"""The weights of a model that no layer of the walk holds, and how much of the model the walk has seen."""

import math
import re

from torch import Tensor, nn

from gradwalk.torch.measurement import Measured
from gradwalk.torch.norms import doubled, log_ratio
from gradwalk.torch.roles import Role
from gradwalk.torch.trace import Trace
from gradwalk.torch.walk import Parameter
from gradwalk.torch.weight_layers import is_weight_layer

_ADDED = re.compile(r"bias|beta|shift|token|pos|embed", re.IGNORECASE)  # names of what is added rather than multiplied
_SMALL = 0.01  # the size of a factor below which a branch starts near zero
_MULTIPLYING = (Role.RECURRENT, Role.ATTENTION)
_SKIPPED = (Role.EMBEDDING, Role.NORM)


def outside_parameters(measured: Measured, trace: Trace) -> tuple[Parameter, ...]:
    """Return the matrices among the parameters that belong to no layer of the walk, with their gradients."""
    seen = {id(p) for call in measured.calls for p in call.module.parameters()}
    owners, found = _owners(trace), []
    for name, gradient in measured.parameters.items():
        module, parameter = owners[name]
        outside = parameter.dim() > 1 and id(parameter) not in seen and trace.roles[module] not in _SKIPPED
        if not outside or _ADDED.search(name.rpartition(".")[2]):
            continue
        size = float(doubled(parameter).norm())
        gain = size / math.sqrt(max(len(parameter), 1))
        relative = math.nan if gradient is None else log_ratio(float(doubled(gradient).norm()), size)
        layer = trace.roles[module] in _MULTIPLYING or is_weight_layer(module)
        found.append(Parameter(name, type(module).__name__, layer, gain, relative))
    return tuple(found)


def _owners(trace: Trace) -> dict[str, tuple[nn.Module, nn.Parameter]]:
    """Return the module of each parameter, by its name; a module's own attributes may hide it from `get_submodule`."""
    held = {id(p): module for module in trace.names for p in module._parameters.values() if p is not None}
    return {name: (held[id(p)], p) for name, p in trace.model.named_parameters()}


def share_seen(measured: Measured, trace: Trace) -> float:
    """Return the share of the weights in use, without those of embeddings and norms, whose layers the walk has seen."""
    seen = {id(p) for call in measured.calls for p in call.module.parameters()}
    used = {name for name, gradient in measured.parameters.items() if gradient is not None}
    counts = [0, 0]
    for name, (module, parameter) in _owners(trace).items():
        counted = id(parameter) in seen or name in used or module in measured.hidden
        if counted and parameter.dim() > 1 and trace.roles[module] not in _SKIPPED:
            counts[id(parameter) in seen] += parameter.numel()
    return counts[True] / max(sum(counts), 1)


def zero_weights(measured: Measured, trace: Trace) -> tuple[str, ...]:
    """Return the weight layers that are zero, and the factors on a signal that are zero or close to it."""
    layers = [call.name for call, square in zip(measured.calls, measured.weight_squares, strict=True) if square == 0]
    factors = [
        name
        for name, p in trace.model.named_parameters()
        if p.dim() < 2 and p.numel() and not _ADDED.search(name) and _rms(p) < _SMALL
    ]
    return tuple(dict.fromkeys([*layers, *factors]))


def _rms(parameter: Tensor) -> float:
    return float(doubled(parameter).square().mean().sqrt())

"""The weights of a model that no layer of the walk holds, and how much of the model the walk has seen."""

import math
import re

from torch import Tensor

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
    seen, found = measured.in_layers, []
    for name, gradient in measured.parameters.items():
        module, parameter = trace.parameters[name]
        outside = parameter.dim() > 1 and id(parameter) not in seen and trace.roles[module] not in _SKIPPED
        if not outside or _ADDED.search(name.rpartition(".")[2]):
            continue
        size = float(doubled(parameter).norm())
        gain = size / math.sqrt(max(len(parameter), 1))
        relative = math.nan if gradient is None else log_ratio(float(doubled(gradient).norm()), size)
        layer = trace.roles[module] in _MULTIPLYING or is_weight_layer(module)
        found.append(Parameter(name, type(module).__name__, layer, gain, relative))
    return tuple(found)


def share_seen(measured: Measured, trace: Trace) -> float:
    """Return the share of the weights in use, without those of embeddings and norms, whose layers the walk has seen."""
    seen = measured.in_layers
    used = {name for name, gradient in measured.parameters.items() if gradient is not None}
    counts = [0, 0]
    for name, (module, parameter) in trace.parameters.items():
        counted = id(parameter) in seen or name in used or module in measured.hidden
        if counted and parameter.dim() > 1 and trace.roles[module] not in _SKIPPED:
            counts[id(parameter) in seen] += parameter.numel()
    return counts[True] / max(sum(counts), 1)


def zero_weights(measured: Measured, trace: Trace) -> tuple[str, ...]:
    """Return the weight layers that are zero, and the factors on a signal that are zero or close to it."""
    layers = [call.name for call, square in zip(measured.calls, measured.weight_squares, strict=True) if square == 0]
    factors = [
        name
        for name, (_, p) in trace.parameters.items()
        if p.dim() < 2 and p.numel() and not _ADDED.search(name) and _rms(p) < _SMALL
    ]
    return tuple(dict.fromkeys([*layers, *factors]))


def _rms(parameter: Tensor) -> float:
    return float(doubled(parameter).square().mean().sqrt())

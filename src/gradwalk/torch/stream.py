"""The size of the signal along residual streams, by mean-field theory, under the gains that are planned."""

import math
from collections.abc import Mapping
from functools import lru_cache

from torch import Tensor, nn

from gradwalk.activations import Activation
from gradwalk.theory import q_map
from gradwalk.torch.graph import Node, Op
from gradwalk.torch.layers import Layers
from gradwalk.torch.structure import Structure, Sum


def stream_sizes(
    layers: Layers, structure: Structure, stds: Mapping[str, float], gains: Mapping[str, float]
) -> dict[int, float]:
    """Return, per residual sum, the root mean square of the stream that enters it; sums of unknown size are left out.

    Layers that are not drawn keep their weights of standard deviation `stds`; inputs have unit variance.
    """
    fan_ins = {layer.name: layer.fan_in for layer in layers.weight_layers}
    modules = {name: module for module, name in layers.trace.names.items()}
    squares: list[float] = []
    for place, node in enumerate(structure.nodes):
        each = structure.sums.get(place)
        if node.op is Op.WEIGHTS:
            own = stds.get(node.name, math.nan) * math.sqrt(fan_ins.get(node.name, 0))
            squares.append(gains.get(node.name, own) ** 2 * squares[node.reads[0]])
        elif place in layers.trace.squares:
            squares.append(layers.trace.squares[place])
        elif each is not None and each.stream is not None:
            squares.append(_stream_square(each, squares))
        else:
            squares.append(_square(node, modules, squares))
    sizes = {each.place: math.sqrt(squares[each.stream]) for each in structure.sums.values() if each.stream is not None}
    return {place: size for place, size in sizes.items() if math.isfinite(size) and size > 0}


def _stream_square(each: Sum, squares: list[float]) -> float:
    """Return the mean square of a stream after a sum: branches that will be scaled for it add next to nothing."""
    assert each.stream is not None
    added = [squares[branch] for branch in each.branches if each.ends.opaque and math.isfinite(squares[branch])]
    return squares[each.stream] + sum(added)


def _square(node: Node, modules: Mapping[str, nn.Module], squares: list[float]) -> float:
    """Return the mean square of the signal after a node without weights; NaN where it is not known."""
    known = [squares[n] for n in node.reads if math.isfinite(squares[n])]
    if node.op is Op.INPUT:
        return 1.0
    if node.op in (Op.LOOKUP, Op.NORM):
        return _own_square(modules.get(node.name))
    if not known or node.op in (Op.MIXING, Op.UNKNOWN):
        return math.nan
    if node.op is Op.ACTIVATION and node.activation is not None:
        return _activated(node.activation, round(20 * math.log(min(max(known[0], 1e-8), 1e8))))
    if node.op is Op.SUM:
        return sum(known)
    if node.op is Op.PRODUCT:
        return math.prod(known)
    if node.op is Op.DROPOUT:
        return known[0] / (1 - (node.amount or 0.0))
    if node.op is Op.SCALE:
        return known[0] * (math.nan if node.amount is None else node.amount**2)
    return sum(known) / len(known)


def _own_square(module: nn.Module | None) -> float:
    """Return the mean square of a norm's or an embedding's weights; 1 for a norm without weights."""
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.is_meta or not weight.is_floating_point():
        return 1.0
    return float(weight.detach().double().square().mean())


@lru_cache(maxsize=4096)
def _activated(activation: Activation, steps: int) -> float:
    return q_map(activation, math.exp(steps / 20))

"""The scale of a model's weights as they are, and the biases that were set on purpose."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gradwalk.torch.layers import UNDRAWABLE, WeightLayer
from gradwalk.torch.weight_layers import weight_of

_ENOUGH = 4096  # entries of a weight that show its scale


def deviations(layers: Sequence[WeightLayer]) -> dict[str, float]:
    """Return the root mean square of each layer's weights, of large ones by their first rows; NaN without values."""
    stds = dict.fromkeys([layer.name for layer in layers], math.nan)
    held: dict[tuple[torch.dtype, torch.device], list[tuple[str, Tensor, Tensor]]] = {}
    for layer in layers:
        if layer.objection not in UNDRAWABLE:
            weight = weight_of(layer.module)
            held.setdefault((weight.dtype, weight.device), []).append((layer.name, _first_rows(weight), weight))
    for group in held.values():
        norms = torch.stack(torch._foreach_norm([rows for _, rows, _ in group])).tolist()
        for (name, rows, weight), norm in zip(group, norms, strict=True):
            stds[name] = norm / math.sqrt(max(rows.numel(), 1)) or float(weight.double().square().mean().sqrt())
    return stds


def _first_rows(weight: Tensor) -> Tensor:
    count = weight.numel()
    return weight if count <= _ENOUGH else weight[: max(1, _ENOUGH * len(weight) // count)]


def constant(biases: Sequence[Tensor]) -> list[bool]:
    """Return which biases have one value other than 0 in all entries, as those set on purpose do."""
    alike: dict[tuple[int, torch.dtype, torch.device], list[int]] = {}
    for place, bias in enumerate(biases):
        alike.setdefault((bias.numel(), bias.dtype, bias.device), []).append(place)
    results = [False] * len(biases)
    for places in alike.values():
        rows = torch.stack([biases[place] for place in places])
        same = ((rows == rows[:, :1]).all(dim=1) & (rows[:, 0] != 0)).tolist()
        for place, is_same in zip(places, same, strict=True):
            results[place] = is_same
    return results

"""The scale of a model's weights as they are, and the biases that were set on purpose."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gradwalk.torch.layers import UNDRAWABLE, WeightLayer
from gradwalk.torch.weight_layers import weight_of

_ENOUGH = 2048  # entries of a weight that show its scale


def deviations(layers: Sequence[WeightLayer]) -> dict[str, float]:
    """Return the root mean square of each layer's weights, of large ones by their first rows; NaN without values."""
    stds = dict.fromkeys([layer.name for layer in layers], math.nan)
    alike: dict[tuple[torch.Size, torch.dtype, torch.device], list[tuple[str, Tensor]]] = {}
    for layer in layers:
        if layer.objection not in UNDRAWABLE:
            weight = weight_of(layer.module)
            alike.setdefault((weight.shape, weight.dtype, weight.device), []).append((layer.name, weight))
    for (shape, dtype, _), group in alike.items():
        count = max(1, _ENOUGH * shape[0] // max(shape.numel(), 1))
        rows = torch.stack([weight[:count] for _, weight in group]).flatten(1)
        norms = torch.linalg.vector_norm(rows, dim=1, dtype=torch.promote_types(dtype, torch.float32))
        for (name, weight), std in zip(group, (norms / math.sqrt(max(rows.shape[1], 1))).tolist(), strict=True):
            stds[name] = std or float(weight.double().square().mean().sqrt())
    return stds


def constant(biases: Sequence[Tensor]) -> list[bool]:
    """Return which biases have one value other than 0 in all entries, as those set on purpose do."""
    alike: dict[tuple[int, torch.dtype, torch.device], list[int]] = {}
    for place, bias in enumerate(biases):
        alike.setdefault((bias.numel(), bias.dtype, bias.device), []).append(place)
    results = [False] * len(biases)
    for places in alike.values():
        rows = torch.stack([biases[place] for place in places])
        same = ((rows == rows[:, :1]).all(dim=1) & (rows[:, 0] != 0)).tolist() if rows.any() else [False] * len(places)
        for place, is_same in zip(places, same, strict=True):
            results[place] = is_same
    return results

"""The scale of a model's weights as they are: which layers are zero, and which are scaled on purpose."""

import math
from collections.abc import Mapping, Sequence
from statistics import median

import torch
from torch import Tensor

from gradwalk.torch.layers import UNDRAWABLE, WeightLayer
from gradwalk.torch.weight_layers import weight_of

_ORDINARY = (0.3, 2.5)  # gains of the usual initialisers: torch's default has 0.58, Xavier 1, He 1.41
_ENOUGH = 4096  # entries of a weight that show its scale
_APART = 4.0  # how far a layer is from the others, in both scale and gain, that is scaled on purpose


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


def on_purpose(layers: Sequence[WeightLayer], stds: Mapping[str, float]) -> dict[str, str]:
    """Return the layers that are zero or clearly scaled on purpose, with the reason in words."""
    known = {layer.name: (stds[layer.name], stds[layer.name] * math.sqrt(layer.fan_in)) for layer in layers}
    sizes = [pair for pair in known.values() if pair[0] > 0]
    typical = (median(std for std, _ in sizes), median(gain for _, gain in sizes)) if sizes else (1.0, 1.0)
    reasons = {}
    for name, (std, gain) in known.items():
        ratios = std / typical[0], gain / typical[1]
        if std == 0:
            reasons[name] = "zero on purpose"
        elif not _ORDINARY[0] < gain < _ORDINARY[1] and (max(ratios) < 1 / _APART or min(ratios) > _APART):
            reasons[name] = f"scaled on purpose: its gain is {gain:.2g}, that of the others about {typical[1]:.2g}"
    return reasons


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

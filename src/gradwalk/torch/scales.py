"""The scale of a model's weights as they are: which layers are zero, and which are scaled on purpose."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import torch
from torch import Tensor

from gradwalk.torch.layers import UNDRAWABLE, WeightLayer
from gradwalk.torch.weight_layers import weight_of

_ORDINARY = (0.3, 2.5)  # gains of the usual initialisers: torch's default has 0.58, Xavier 1, He 1.41
_SAMPLED = 2048
_STACKED = 1_000_000  # numbers copied at a time to take many norms in one call
_APART = 4.0  # how far a layer is from the others, in both scale and gain, that is scaled on purpose


def deviations(layers: Sequence[WeightLayer]) -> dict[str, float]:
    """Return the root mean square of each layer's weights, from 2,048 of them at most, NaN where it has no values."""
    stds = dict.fromkeys([layer.name for layer in layers], math.nan)
    held = [layer for layer in layers if layer.objection not in UNDRAWABLE]
    samples = [_sample(weight_of(layer.module)) for layer in held]
    for layer, sample, norm in zip(held, samples, _norms(samples, 2), strict=True):
        stds[layer.name] = norm / math.sqrt(max(len(sample), 1))
        if norm == 0 and bool(weight_of(layer.module).any()):
            stds[layer.name] = float(weight_of(layer.module).double().square().mean().sqrt())
    return stds


def _sample(weight: Tensor) -> Tensor:
    """Return entries of a weight at even distances."""
    flat = weight.reshape(-1)
    return flat if len(flat) <= _SAMPLED else flat[:: -(-len(flat) // _SAMPLED)]


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
    twos, largest = _norms(biases, 2), _norms(biases, math.inf)
    return [
        most > 0 and abs(two / (most * math.sqrt(bias.numel())) - 1) < 1e-6
        for two, most, bias in zip(twos, largest, biases, strict=True)
    ]


def _norms(tensors: Sequence[Tensor], order: float) -> list[float]:
    """Return the norms of many tensors with few calls: small ones of the same shape are stacked."""
    alike: dict[tuple[torch.Size, torch.dtype, torch.device], list[int]] = {}
    for place, tensor in enumerate(tensors):
        alike.setdefault((tensor.shape, tensor.dtype, tensor.device), []).append(place)
    norms = [0.0] * len(tensors)
    for places in alike.values():
        for some in batched(places, max(1, _STACKED // max(tensors[places[0]].numel(), 1))):
            stack = torch.stack([tensors[place] for place in some]).flatten(1)
            exact = torch.float32 if stack.dtype in (torch.float16, torch.bfloat16) else stack.dtype
            found = torch.linalg.vector_norm(stack, order, dim=1, dtype=exact).tolist()
            for place, norm in zip(some, found, strict=True):
                norms[place] = norm
    return norms


def batched(items: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """Yield the items in pieces of at most this size."""
    for start in range(0, len(items), size):
        yield items[start : start + size]

"""Sections of a model, from one norm, sum, input or output to the next, and whether their own weights serve.

What was measured: at a given learning rate larger weights learn more slowly. In 150 steps of Adam plain ReLU networks
train better from torch's own, smaller weights than from unbiased ones as long as the gradient shrinks by less than some
ten million on its way, and worse beyond (results/chains.md); with SGD unbiased ones are better from 4 layers on. So do
those with a norm in front. Residual branches gain only where they are off their law by more than a factor of about 6
(results/models.md).
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from gradwalk.torch.layers import WeightLayer

_CHAIN = (1e-7, 1e2)  # the factors between which a whole chain may change the gradient
_SECTION = (1 / 6, 3.0)  # and a section between resets, compared with its law; what is too large adds up over branches
_OUTSIDE_SUMS = (1e-7, 3.0)  # and one that ends in no sum, a chain behind a norm, if each of its layers is within those
_NORMED = (1 / 6, 1e2)  # and a residual branch that begins with a norm, which lets the gradient grow only once
FINE = "fine as it is: its own scale serves"
PARTLY = "its section has a layer outside the theory"


def chain_serves(totals: Iterable[float]) -> bool:
    """Return whether these logarithms of the own scale over that by the law, summed along a chain, are harmless."""
    return _within(totals, _CHAIN)


def _within(totals: Iterable[float], limits: tuple[float, float]) -> bool:
    low, high = limits
    return all(math.log(low) <= total <= math.log(high) for total in totals)


def kept_sections(
    layers: Sequence[WeightLayer],
    continues: Callable[[WeightLayer], bool],
    ratios: Mapping[str, float],
    fixed: Collection[str],
    normed: Collection[str],
    branches: Collection[str],
    is_chain: bool,
) -> dict[str, str]:
    """Return the layers of the sections that stay as they are, with the reason in words.

    Those are the sections whose own scale serves, and those with layers whose law is not known. ratios: ln of the own
    scale over that by the law, per layer whose law is known. fixed: layers that are left alone on purpose. normed:
    those that end a residual branch which begins with a norm. branches: those inside one, and all that end in a sum.
    `layers` are in the order they run.
    """
    section, totals = _sections(layers, continues), _totals(layers, continues, ratios)
    members: dict[str, list[WeightLayer]] = {}
    for layer in layers:
        members.setdefault(section[layer.name], []).append(layer)
    reasons = {}
    for name in ratios:
        whole = members[section[name]]
        names = {layer.name for layer in whole}
        limits = _CHAIN if is_chain else _limits(names, normed, branches)
        each_fine = limits is not _OUTSIDE_SUMS or _within([ratios.get(each, 0.0) for each in names], _SECTION)
        if each_fine and _within([totals[layer.name] for layer in whole], limits):
            reasons[name] = FINE
        elif not is_chain and any(each not in ratios and each not in fixed for each in names):
            reasons[name] = PARTLY
    return reasons


def _limits(names: set[str], normed: Collection[str], branches: Collection[str]) -> tuple[float, float]:
    """Return the limits of a section of these layers in a model with norms or sums."""
    if names.isdisjoint(branches):
        return _OUTSIDE_SUMS
    return _SECTION if names.isdisjoint(normed) else _NORMED


def _totals(
    layers: Sequence[WeightLayer], continues: Callable[[WeightLayer], bool], ratios: Mapping[str, float]
) -> dict[str, float]:
    """Return, per layer, the sum of the ratios from the start of its section, averaged over the paths to it."""
    totals: dict[str, float] = {}
    for layer in layers:
        before = [totals[name] for name in layer.reads if name in totals] if continues(layer) else []
        totals[layer.name] = ratios.get(layer.name, 0.0) + (sum(before) / len(before) if before else 0.0)
    return totals


def _sections(layers: Sequence[WeightLayer], continues: Callable[[WeightLayer], bool]) -> dict[str, str]:
    """Return the section of each layer, under the name of its first layer."""
    above = {layer.name: layer.name for layer in layers}

    def first(name: str) -> str:
        while above[name] != name:
            above[name] = above[above[name]]
            name = above[name]
        return name

    for layer in layers:
        for name in layer.reads if continues(layer) else ():
            if name in above:
                above[first(layer.name)] = first(name)
    return {name: first(name) for name in above}

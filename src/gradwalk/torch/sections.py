"""Sections of a model, from one norm, sum, input or output to the next, and whether their own weights serve.

What was measured (results/models.md): at a given learning rate larger weights learn more slowly. In 150 steps of Adam
plain ReLU networks train better from torch's own, smaller weights than from unbiased ones as long as the gradient
shrinks by less than about a million on its way, and not at all beyond that; models with norms and residual sums gain
only where a section is off its law by more than a factor of about 4.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from gradwalk.torch.layers import WeightLayer

CHAIN_LIMIT = 1e4  # the factor by which a whole chain may change the gradient's norm
SECTION_LIMIT = 4.0  # and a section between resets, compared with its law


def fine_sections(
    layers: Sequence[WeightLayer], continues: Callable[[WeightLayer], bool], ratios: Mapping[str, float], is_chain: bool
) -> dict[str, str]:
    """Return the layers of the sections whose own scale serves, with the reason in words.

    ratios: ln of the own scale over that by the law, per layer whose law is known. `layers` are in the order they run.
    """
    limit = CHAIN_LIMIT if is_chain else SECTION_LIMIT
    reason = f"fine as it is: its {'chain' if is_chain else 'section'} is within a factor of {limit:,.0f} of its law"
    section = _sections(layers, continues)
    extremes = dict.fromkeys(section.values(), 0.0)
    for name, total in _totals(layers, continues, ratios).items():
        extremes[section[name]] = max(extremes[section[name]], abs(total))
    return {name: reason for name in ratios if extremes[section[name]] <= math.log(limit)}


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

"""A picture of sampled walks: single walks, their mean, and the band that holds 90 % of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gradwalk.display import BLUE, GREEN, INK, axes_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gradwalk.simulation.walks import Walks

_DRAWN = 60  # single walks in the picture


def plot_walks(walks: Walks, ax: Axes | None, colour: str = BLUE) -> Axes:
    """Draw the log-norm against the layers travelled back, and return the axes."""
    panel, travelled = axes_of(ax), (walks.depth - walks.layers).astype(float)
    low, high = np.quantile(walks.log_norm, (0.05, 0.95), axis=0)
    panel.fill_between(travelled, low, high, color=colour, alpha=0.15, linewidth=0, label="5 to 95 % of the walks")
    for walk in walks.log_norm[:_DRAWN]:
        panel.plot(travelled, walk, color=colour, alpha=0.45, linewidth=0.6)
    panel.axhline(0.0, color=GREEN, linewidth=1.2)
    panel.plot(travelled, walks.log_norm.mean(axis=0), color=INK, linewidth=2, label="mean of all walks")
    panel.set(xlabel="layers travelled back", ylabel=r"$\ln\,|\delta_d|/|\delta_D|$")
    panel.set_title(f"{walks.activation}, D = {walks.depth}, {len(walks.final)} walks", fontsize=10)
    panel.legend(frameon=False, fontsize=8)
    return panel

"""A picture of sampled walks: single walks, their mean, and the band in which theory expects them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradwalk.activations import Activation
from gradwalk.figures import BLACK, GREEN, RED, canvas, plot_walks, zero_line
from gradwalk.simulation import Walks
from gradwalk.theory import Band, kind, predicted_walk

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DRAWN = 60  # single walks in the picture


def draw_walks(walks: Walks) -> Figure:
    """Return a figure with the log-norm against the layers travelled back.

    The dashed band is mean ± 2 standard deviations: predicted for neutral activations, measured for the others.
    """
    figure, panels = canvas(1, 1, (6.8, 4.2))
    panel, travelled = panels[0, 0], (walks.depth - walks.layers).astype(float)
    plot_walks(panel, travelled, walks.log_norm[:_DRAWN])
    zero_line(panel, GREEN)
    panel.plot(travelled, walks.log_norm.mean(axis=0), color=BLACK, linewidth=2, label="mean of all walks")
    band, source = _band(walks)
    for sign, label in ((-2, f"{source}, ± 2 s.d."), (2, None)):
        panel.plot(travelled, band.mean + sign * band.deviation, color=RED, linestyle="--", label=label)
    panel.set_xlabel("layers travelled back")
    panel.set_title(f"{walks.activation}, D = {walks.depth}, {_gain(walks)}", fontsize=10)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return figure


def _band(walks: Walks) -> tuple[Band, str]:
    """Return the band at the layers of the walks, and whether it is predicted or measured."""
    if not isinstance(walks.activation, Activation) or kind(walks.activation) != "neutral":
        return Band(walks.log_norm.mean(axis=0), walks.log_norm.std(axis=0)), "measured"
    predicted = predicted_walk(walks.activation, walks.widths, walks.gains, walks.weights)
    travelled = walks.depth - walks.layers
    return Band(predicted.mean[travelled], predicted.deviation[travelled]), "predicted"


def _gain(walks: Walks) -> str:
    if not isinstance(walks.activation, Activation):
        return "own gains"
    low, high = walks.gains.min(), walks.gains.max()
    return f"g = {low:.5g}" if low == high else f"g = {low:.5g} to {high:.5g}"

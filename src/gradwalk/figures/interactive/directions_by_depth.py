"""Directions against depth over width for the page."""

from __future__ import annotations

import numpy as np

from gradwalk.checks import WEIGHTS
from gradwalk.figures.directions import TITLES
from gradwalk.figures.interactive.frame import BLUE, RED, Panel, Trace, line, panel
from gradwalk.figures.table import Table

_COLOURS = {"gaussian": RED, "orthogonal": BLUE}


def panels(table: Table) -> list[Panel]:
    """Return one panel per activation."""
    width = table.facts["width"]
    x = {
        "type": "log",
        "title": {"text": "depth over width, D / N"},
        "tickvals": [1 / 8, 1, 8],
        "ticktext": ["1/8", "1", "8"],
    }
    y = {"type": "log", "title": {"text": f"directions of N = {width:.0f}"}, "tickvals": [1, 2, 4, 8, 16, 32, 64]}
    y |= {"range": [-0.05, float(np.log10(1.2 * width))]}
    shown = []
    for name in dict.fromkeys(table["activation"]):
        traces = [
            trace for weights in WEIGHTS for trace in _traces(table.where(activation=name, weights=weights), weights)
        ]
        shown.append(panel(TITLES.get(name, name), traces, x, y))
    return shown


def _traces(rows: Table, weights: str) -> list[Trace]:
    """Return theory, sampler and literal networks for one kind of weights."""
    ratio, colour = rows["depth"] / rows["width"], _COLOURS[weights]
    hover = "D / N = %{x:.3g}: %{y:.2f}"
    error = {"type": "data", "array": 2 * rows["literal_error"], "thickness": 1, "width": 3}
    points = {"mode": "markers", "marker": {"size": 7, "symbol": "circle" if weights == "gaussian" else "square"}}
    return [
        line(ratio, rows["theory"], colour, name=f"{weights}: wide networks", dash="dot", width=1, hovertemplate=hover),
        line(ratio, rows["sampled"], colour, name=f"{weights}: sampler", hovertemplate=hover),
        line(ratio, rows["literal"], colour, name=f"{weights}: literal", error_y=error, hovertemplate=hover, **points),
    ]

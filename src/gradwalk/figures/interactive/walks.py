"""Figure 1 for the page: sample walks, their mean, their variance."""

from __future__ import annotations

import math

import numpy as np

from gradwalk.figures.fig1 import sample_walks
from gradwalk.figures.interactive.frame import BLUE, INK, MUTED, RED, Panel, Trace, band, even_line, level, line, panel
from gradwalk.figures.table import Table

_X = {"title": {"text": "layers travelled back, d"}}


def panels(table: Table) -> list[Panel]:
    """Return the three panels."""
    return [_samples(table), _mean(table), _variance(table)]


def _samples(table: Table) -> Panel:
    facts, walks = table.facts, sample_walks(table)
    first, second = table["travelled"][:2]
    about = f"g = {facts['gain']:.6f}, N = {facts['width']:.0f}, D = {facts['depth']:.0f}"
    traces: list[Trace] = []
    for place, walk in enumerate(walks):
        hover = f"walk {place + 1}, {about}<br>d = %{{x}}: %{{y:.3f}}<extra></extra>"
        look = {"width": 0.8, "opacity": 0.4 + 0.4 * (place % 3 == 0), "showlegend": False, "hovertemplate": hover}
        traces.append(even_line(first, second - first, np.round(walk, 3), BLUE, **look))
    y = {"title": {"text": "ln |δ<sub>d</sub>| / |δ<sub>D</sub>|"}}
    title = f"{len(walks)} of {facts['walks']:,.0f} walks of a linear network, {about}"
    return panel(title, traces, _X, y, shapes=[level(0.0, MUTED, "solid")])


def _mean(table: Table) -> Panel:
    x, mean, error = table["travelled"], table["mean"], table["standard_error"]
    hover = "d = %{x}: mean %{y:.4f} ± %{customdata:.4f}<extra></extra>"
    traces = [
        band(x, mean - 2 * error, mean + 2 * error, "± 2 standard errors"),
        line(x, mean, BLUE, name="mean of the walks", customdata=error.astype(np.float32), hovertemplate=hover),
        line(x[[0, -1]], np.zeros(2), RED, name="predicted: 0", dash="dash"),
    ]
    return panel("Their mean stays at 0", traces, _X, {"title": {"text": "mean log-norm"}})


def _variance(table: Table) -> Panel:
    x, variance = table["travelled"], table["variance"]
    error = variance * math.sqrt(2 / (table.facts["walks"] - 1))
    ends = [0, -1]
    traces = [
        band(x, variance - 2 * error, variance + 2 * error, "± 2 standard errors"),
        line(x, variance, BLUE, name="variance of the walks", hovertemplate="d = %{x}: %{y:.4f}<extra></extra>"),
        line(x[ends], table["printed"][ends], RED, name="d / (2N), eq. 14", dash="dash"),
        line(x[ends], table["exact"][ends], INK, name="exact", dash="dot"),
    ]
    return panel("Their variance grows linearly", traces, _X, {"title": {"text": "variance of the log-norm"}})

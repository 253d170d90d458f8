"""Figure 2 for the page: the best gain against width, and the mean log-norm against the gain."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.figures.fig2 import EQUATIONS, GUIDE, PAPERS_TANH, TITLES
from gradwalk.figures.interactive.frame import BAND, BLUE, GREEN, INK, RED, Panel, level, line, note, panel
from gradwalk.figures.table import Table


def panels(table: Table) -> list[Panel]:
    """Return the upper row, then the lower one."""
    upper = [_best(table.where(panel="best", activation=name), name) for name in TITLES]
    lower = [_mean(table.where(panel="mean", activation=name), name) for name in TITLES]
    return [*upper, *lower]


def _best(rows: Table, name: str) -> Panel:
    width, depth = rows["width"], rows.facts["depth"]
    hover = "N = %{x}: best g = %{y:.4f} ± %{customdata:.4f}" + f"<br>{TITLES[name]}, D = {depth:.0f}<extra></extra>"
    points = {"mode": "markers", "marker": {"size": 6, "color": INK}, "customdata": rows["gain_error"]}
    error = {"type": "data", "array": 2 * rows["gain_error"], "color": INK, "thickness": 1, "width": 3}
    traces = [line(width, rows["gain"], INK, name="simulated, ± 2 s.e.", error_y=error, hovertemplate=hover, **points)]
    more: dict[str, Any] = {}
    if name in EQUATIONS:
        formula = "N = %{x}: g = %{y:.5f}"
        traces.append(line(width, rows["printed"], RED, name=EQUATIONS[name], hovertemplate=formula))
        traces.append(line(width, rows["ours"], BLUE, name="exact", dash="dash", hovertemplate=formula))
    else:
        low, high = PAPERS_TANH
        more["shapes"] = [
            {"type": "rect", "xref": "paper", "x0": 0, "x1": 1, "y0": low, "y1": high, "layer": "below"}
            | {"fillcolor": BAND, "line": {"width": 0}}
        ]
        more["annotations"] = [note(f"the paper: {low:g} to {high:g}", high, log=False, right=True)]
    x = {"type": "log", "title": {"text": "width N"}, "tickvals": [10, 30, 100, 300]}
    return panel(f"{TITLES[name]}: best g over N, D = {depth:.0f}", traces, x, {"title": {"text": "best g"}}, **more)


def _mean(rows: Table, name: str) -> Panel:
    facts = rows.facts
    about = f"{TITLES[name]}, N = {facts['width']:.0f}, D = {facts['depth']:.0f}"
    hover = "g = %{x:.4f}: mean %{y:.3f} ± %{customdata:.3f}" + f"<br>{about}<extra></extra>"
    points = {"mode": "lines+markers", "marker": {"size": 5, "color": INK}, "customdata": rows["mean_error"]}
    error = {"type": "data", "array": 2 * rows["mean_error"], "color": INK, "thickness": 1, "width": 0}
    look = {"width": 1, "error_y": error, "hovertemplate": hover, "showlegend": False}
    traces = [line(rows["gain"], rows["mean"], INK, **look, **points)]
    formula = name in EQUATIONS
    g = float(rows["printed" if formula else "ours"][0])
    arrow = {
        "x": g,
        "y": 0,
        "ax": 34,
        "ay": 58,  # to the lower right, where there is no curve
        "xanchor": "left",
        "text": f"{EQUATIONS[name] if formula else 'solved'}: g = {g:.4f}",
        "arrowcolor": RED,
        "arrowhead": 2,
        "font": {"color": RED, "size": 11},
    }
    shapes = [level(0.0, GREEN, "solid"), level(GUIDE, GREEN, "dash"), level(-GUIDE, GREEN, "dash")]
    reach = float(np.abs(rows["mean"]).max()) * 1.1
    y = {"title": {"text": "mean ln |δ<sub>0</sub>| / |δ<sub>D</sub>|"}, "range": [-reach, reach]}
    return panel(f"{about}: mean over g", traces, {"title": {"text": "g"}}, y, shapes=shapes, annotations=[arrow])

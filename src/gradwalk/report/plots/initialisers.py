"""Which initialiser at which depth, for the page: each point with the runs of its seeds."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.figures.error_axis import Levels, levels
from gradwalk.figures.initialisers import ACTIVATIONS, CHANCE, MOST, activations, medians, reach, shift, titles, walks
from gradwalk.figures.outcomes import finished, select, unique
from gradwalk.figures.table import Table
from gradwalk.report.plots.frame import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PURPLE,
    RED,
    SYMBOLS,
    Panel,
    Trace,
    depth_axis,
    error_axis,
    error_levels,
    line,
    panel,
)

_COLOURS = (RED, BLUE, MUTED, INK, PURPLE, ORANGE, GREEN)


def panels(table: Table) -> list[Panel]:
    """Return a panel an activation: the median loss of each initialiser against the depth."""
    shown, points = finished(table), medians(table)
    lines = levels(points["loss"], None, MOST)
    y_axis = error_axis(points["loss"], lines, None, CHANCE) | {"title": {"text": "training loss"}}
    marks, x_axis = error_levels(lines, CHANCE, "chance, ln 10"), depth_axis(unique(points["depth"]))
    return [
        panel(ACTIVATIONS.get(name, name), _traces(name, shown, points, lines), x_axis, y_axis, **marks)
        for name in activations(shown)
    ]


def _traces(name: str, shown: Table, points: Table, lines: Levels) -> list[Trace]:
    found = []
    for place, (weights, title) in enumerate(titles().items()):
        same, ours = points.where(activation=name, weights=weights), weights in walks()
        runs = shown.where(activation=name, weights=weights)
        if not len(same["depth"]):
            continue
        heights = lines.heights(same["loss"])
        look: dict[str, Any] = {"mode": "lines+markers", "name": title, "width": 2 if ours else 1}
        look |= {"dash": "solid" if ours else "dash", "marker": {"symbol": SYMBOLS[place % len(SYMBOLS)], "size": 8}}
        look |= {"text": [_told(runs, same, row) for row in range(len(heights))]}
        look |= {"hovertemplate": "%{text}<extra></extra>", "error_y": _bars(same, heights)}
        found.append(line(same["depth"] * shift(weights), heights, _COLOURS[place % len(_COLOURS)], **look))
    return found


def _bars(same: Table, heights: Any) -> dict[str, Any]:
    """The least and the greatest loss of the seeds, as distances from the median."""
    below, above = reach(same, heights)
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "thickness": 1, "width": 3}


def _told(runs: Table, points: Table, row: int) -> str:
    """The runs behind a point in words, a line a seed."""
    depth, rate = points["depth"][row], points["rate"][row]
    same = select(runs, (runs["depth"] == depth) & (runs["rate_in"] == rate))
    gain = "" if np.isnan(same["gain"][0]) else f", g = {same['gain'][0]:.4g}"
    title = titles()[str(same["weights"][0])]
    head = f"{same['activation'][0]}, {title}{gain}<br>D = {depth:.0f}, N = {same['width'][0]:.0f}, rate {rate:g}"
    return "<br>".join([head, *(_seed(same, each) for each in range(len(same["seed"])))])


def _seed(runs: Table, row: int) -> str:
    loss, held = runs["train_loss"][row], runs["test_loss"][row]
    said = "diverged" if np.isnan(loss) else f"loss {loss:.4g}, held out {held:.4g}"
    return f"seed {runs['seed'][row]:.0f}: {said}"

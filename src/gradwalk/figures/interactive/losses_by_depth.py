"""Training loss by depth for the page: each point with the runs of its seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradwalk.activations import Array
from gradwalk.figures import loss_by_depth as figure
from gradwalk.figures.error_axis import Levels, levels
from gradwalk.figures.interactive.frame import (
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
from gradwalk.figures.outcomes import unique

if TYPE_CHECKING:
    from pandas import DataFrame, Series

_COLOURS = (RED, BLUE, MUTED, INK, PURPLE, ORANGE, GREEN)


def panels(runs: DataFrame) -> list[Panel]:
    """Return the panels: the median loss of each initialiser against depth."""
    points = figure.medians(runs)
    losses = points["loss"].to_numpy()
    lines = levels(losses, None, figure.MOST)
    y_axis = error_axis(losses, lines, None, figure.CHANCE) | {"title": {"text": "training loss"}}
    marks, x_axis = error_levels(lines, figure.CHANCE, "chance, ln 10"), depth_axis(unique(points["depth"]))
    shown = []
    for name in figure.panels(runs):
        own_runs, own_points = (rows[rows["panel"] == name] for rows in (runs, points))
        traces = _traces(own_runs, own_points, figure.initialisers(points), lines)
        shown.append(panel(name, traces, x_axis, y_axis, **marks))
    return shown


def _traces(runs: DataFrame, points: DataFrame, schemes: list[str], lines: Levels) -> list[Trace]:
    """Return one trace per initialiser, with bars from the least to the greatest loss of the seeds."""
    traces = []
    for place, weights in enumerate(schemes):
        same, walk = points[points["weights"] == weights], figure.ours(weights)
        if same.empty:
            continue
        heights = lines.heights(same["loss"].to_numpy())
        traces.append(
            line(
                same["depth"].to_numpy() * figure.shift(place, len(schemes)),
                heights,
                _COLOURS[place % len(_COLOURS)],
                width=2 if walk else 1,
                dash="solid" if walk else "dash",
                mode="lines+markers",
                name=figure.title(weights),
                marker={"symbol": SYMBOLS[place % len(SYMBOLS)], "size": 8},
                error_y=_bars(same, heights),
                text=[_members(runs[runs["weights"] == weights], point) for _, point in same.iterrows()],
                hovertemplate="%{text}<extra></extra>",
            )
        )
    return traces


def _bars(points: DataFrame, heights: Array) -> dict[str, Any]:
    below, above = figure.reach(points, heights)
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below, "thickness": 1, "width": 3}


def _members(runs: DataFrame, point: Series[Any]) -> str:
    """Return the runs behind a point in words, one line per seed."""
    same = runs[(runs["depth"] == point["depth"]) & (runs["rate_in"] == point["rate"])]
    first = same.iloc[0]
    gain = f", g = {first['gain']:.4g}" if first["gain"] == first["gain"] else ""
    head = f"{first['activation']}, {figure.title(first['weights'])}{gain}"
    size = f"D = {first['depth']:.0f}, N = {first['width']:.0f}, rate {point['rate']:g}"
    return "<br>".join([head, size, *(_seed(run) for _, run in same.iterrows())])


def _seed(run: Series[Any]) -> str:
    loss, held_out = run["train_loss"], run["test_loss"]
    words = f"loss {loss:.4g}, held out {held_out:.4g}" if loss == loss else "diverged"
    return f"seed {run['seed']:.0f}: {words}"

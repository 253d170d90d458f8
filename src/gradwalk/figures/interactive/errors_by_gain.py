"""Figure 3 for the page: training error against g, each point with the run it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradwalk.figures.error_axis import Levels, levels
from gradwalk.figures.fig3 import DODGE, PAPERS_BEST, TITLES, activations
from gradwalk.figures.interactive.frame import (
    BAND,
    Panel,
    Trace,
    error_axis,
    error_levels,
    line,
    panel,
    shades,
    symbols,
)
from gradwalk.figures.interactive.run_words import outcome
from gradwalk.figures.outcomes import example_count, finished, grouped
from gradwalk.figures.table import Table

if TYPE_CHECKING:
    from pandas import DataFrame

_ALL: dict[str, Any] = {"mode": "markers", "size": 6, "opacity": 0.75, "dodge": DODGE}
_BEST: dict[str, Any] = {"mode": "lines+markers", "size": 8, "opacity": 1.0, "dodge": 0.0}


def panels(table: Table) -> list[Panel]:
    """Return one panel per activation with all runs, then one each with the best runs over the learning rates."""
    runs = finished(table)
    lines = levels(runs["train_error"].to_numpy(), example_count(runs))
    axis = error_axis(runs["train_error"].to_numpy(), lines, example_count(runs), None)
    by_name = {name: runs[runs["activation"] == name] for name in activations(runs)}
    every = [_panel(name, "all runs", rows, lines, axis, _ALL) for name, rows in by_name.items()]
    best = [
        _panel(name, "best over the learning rates", best_of_each_gain(rows), lines, axis, _BEST)
        for name, rows in by_name.items()
    ]
    return [*every, *best]


def best_of_each_gain(rows: DataFrame) -> DataFrame:
    """Return the best run of each depth and g; one that diverged if all of them did."""
    ranked = rows.sort_values(["train_error", "train_loss"], kind="stable", na_position="last")
    return ranked.drop_duplicates(["depth", "gain"]).sort_values(["depth", "gain"])


def _panel(name: str, what: str, rows: DataFrame, lines: Levels, axis: dict[str, Any], look: dict[str, Any]) -> Panel:
    title, marks = f"{TITLES.get(name, name)}, {what}", error_levels(lines, None)
    if name in PAPERS_BEST:
        low, high = PAPERS_BEST[name]
        title += f"; shaded: best in the paper, {low:g} to {high:g}"
        span = {"type": "rect", "yref": "paper", "y0": 0, "y1": 1, "x0": low, "x1": high, "layer": "below"}
        marks["shapes"].append(span | {"fillcolor": BAND, "line": {"width": 0}})
    return panel(title, _traces(rows, lines, look), {"title": {"text": "g"}}, axis, **marks)


def _traces(rows: DataFrame, lines: Levels, look: dict[str, Any]) -> list[Trace]:
    """Return one trace per depth."""
    colours, shapes = shades(rows["depth"]), symbols(rows["depth"])
    middle, traces = (len(colours) - 1) / 2, []
    for place, (depth, runs) in enumerate(grouped(rows, "depth")):
        x = runs["gain"].to_numpy() + look["dodge"] * (place - middle)
        traces.append(
            line(
                x,
                lines.heights(runs["train_error"].to_numpy()),
                colours[depth],
                width=1.2,
                name=f"D = {depth:.0f}",
                mode=look["mode"],
                opacity=look["opacity"],
                marker={"symbol": shapes[depth], "size": look["size"]},
                text=[outcome(run) for _, run in runs.iterrows()],
                hovertemplate="%{text}<extra></extra>",
            )
        )
    return traces

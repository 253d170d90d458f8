"""Figures 4A, 4B and 4D for the page: the mean error over g against depth, each point with its members."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gradwalk.figures.error_axis import Levels, levels
from gradwalk.figures.error_by_depth import MOST, beside_depths
from gradwalk.figures.interactive.frame import (
    Panel,
    Trace,
    depth_axis,
    error_axis,
    error_levels,
    line,
    panel,
    shades,
    symbols,
)
from gradwalk.figures.interactive.rate_legends import LAYOUT, rate_keys
from gradwalk.figures.interactive.run_words import members
from gradwalk.figures.outcomes import (
    averages,
    constant_error,
    data_title,
    example_count,
    finished,
    grouped,
    listed,
    partly_diverged,
    unique,
)
from gradwalk.figures.table import Table

if TYPE_CHECKING:
    from pandas import DataFrame


def panels(table: Table) -> list[Panel]:
    """Return the panel: one point per depth and pair of rates, the mean over g; hollow where some g diverged."""
    runs = finished(table)
    points, examples, constant = averages(runs), example_count(runs), constant_error(runs)
    errors = points["train_error"].to_numpy()
    lines = levels(errors, examples, np.inf if examples else MOST)
    colours, shapes = shades(points["rate_out"]), symbols(points["rate_in"])
    traces = [*_traces(runs, points, lines, colours, shapes), *rate_keys(colours, shapes)]
    hollow = "; hollow: some g diverged" if partly_diverged(points).any() else ""
    title = f"{data_title(runs)}, mean over g = {listed(runs['gain'])}{hollow}"
    y_axis, marks = error_axis(errors, lines, examples, constant), error_levels(lines, constant)
    return [panel(title, traces, depth_axis(unique(points["depth"])), y_axis, wide=True, **LAYOUT, **marks)]


def _traces(
    runs: DataFrame, points: DataFrame, lines: Levels, colours: dict[float, str], shapes: dict[float, str]
) -> list[Trace]:
    """Return one trace per pair of rates."""
    words = {key: members(rows) for key, rows in grouped(runs, "depth", "rate_in", "rate_out")}
    traces = []
    for (rate_in, rate_out), same in grouped(beside_depths(points), "rate_in", "rate_out"):
        symbol = np.where(partly_diverged(same), f"{shapes[rate_in]}-open", shapes[rate_in])
        traces.append(
            line(
                same["x"].to_numpy(),
                lines.heights(same["train_error"].to_numpy()),
                colours[rate_out],
                width=1.2,
                mode="lines+markers",
                marker={"symbol": symbol.tolist(), "size": 8, "color": colours[rate_out]},
                text=[words[depth, rate_in, rate_out] for depth in same["depth"]],
                hovertemplate="%{text}<extra></extra>",
                showlegend=False,
            )
        )
    return traces

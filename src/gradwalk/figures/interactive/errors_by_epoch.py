"""Figure 4C for the page: training error against the epoch, one curve per run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradwalk.figures.error_axis import Levels, levels
from gradwalk.figures.fig4c import line_styles
from gradwalk.figures.interactive.frame import (
    Panel,
    Trace,
    error_axis,
    error_levels,
    line,
    panel,
    shades,
    symbols,
)
from gradwalk.figures.interactive.rate_legends import LAYOUT, dash_keys, rate_keys
from gradwalk.figures.interactive.run_words import error, settings
from gradwalk.figures.outcomes import RUN, constant_error, data_title, example_count, finished, grouped
from gradwalk.figures.table import Table

if TYPE_CHECKING:
    from pandas import DataFrame

_DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}


def panels(table: Table) -> list[Panel]:
    """Return the panel: one curve per run, which ends on the line above if the run diverged."""
    rows = finished(table)
    errors, examples, constant = rows["train_error"].to_numpy(), example_count(rows), constant_error(rows)
    lines = levels(errors, examples)
    colours, shapes = shades(rows["rate_out"]), symbols(rows["rate_in"])
    dashes = {weights: _DASHES[style] for weights, style in line_styles(rows).items()}
    traces = [*_traces(rows, lines, colours, shapes, dashes), *rate_keys(colours, shapes)]
    if len(dashes) > 1:
        traces += dash_keys({f"{weights} weights": dash for weights, dash in dashes.items()})
    size = f"D = {rows['depth'].max():.0f}, N = {rows['width'].max():.0f}"
    title = f"{data_title(rows)}, {size}, error by epoch"
    x_axis = {"title": {"text": "epoch"}, "dtick": max(1, round(rows["epoch"].max() / 10))}
    y_axis, marks = error_axis(errors, lines, examples, constant), error_levels(lines, constant)
    return [panel(title, traces, x_axis, y_axis, wide=True, **LAYOUT, **marks)]


def _traces(
    rows: DataFrame, lines: Levels, colours: dict[float, str], shapes: dict[float, str], dashes: dict[str, str]
) -> list[Trace]:
    """Return one trace per run."""
    examples, traces = example_count(rows), []
    for _, run in grouped(rows, *RUN):
        first = run.iloc[0]
        traces.append(
            line(
                run["epoch"].to_numpy(),
                lines.heights(run["train_error"].to_numpy()),
                colours[first["rate_out"]],
                dash=dashes[first["weights"]],
                width=1.3,
                mode="lines+markers",
                marker={"symbol": shapes[first["rate_in"]], "size": 6},
                customdata=[error(value, examples) for value in run["train_error"]],
                hovertemplate=f"{settings(first)}<br>epoch %{{x}}: %{{customdata}}<extra></extra>",
                showlegend=False,
            )
        )
    return traces

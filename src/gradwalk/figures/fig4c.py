"""Figure 4C: training error on MNIST against the epoch at D = 1000 (N = 249, p_lim = 62e6, g = 1.05 in the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.figures.drawing import canvas
from gradwalk.figures.error_axis import epoch_axis, levels, mark, mark_constant, plain_ticks
from gradwalk.figures.figure import TrainedFigure
from gradwalk.figures.outcomes import (
    RUN,
    Line,
    Schedule,
    best,
    constant_error,
    data_title,
    example_count,
    finished,
    grouped,
    last_epochs,
    listed,
    overview,
    percent,
    schedule,
    unique,
)
from gradwalk.figures.rate_marks import RateMarks
from gradwalk.figures.run_table import by_epoch
from gradwalk.figures.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture
    from pandas import DataFrame, Series

    from gradwalk.figures.interactive.frame import Panel

_MARKERS = 8  # roughly, per curve


@dataclass(frozen=True)
class DeepRuns:
    """What the runs of the figure amount to.

    best: the run of least error after its last epoch, None if every run diverged. mistakes: those of the best run by
    kind of weights, NaN if all of them diverged. lowest: the fewest mistakes after any epoch of any run by kind of
    weights, infinite if there are none. schedule: the least errors with equal and with unequal learning rates.
    """

    depth: int
    width: int
    best: Series[Any] | None
    mistakes: dict[str, float]
    lowest: dict[str, float]
    schedule: Schedule


def deep_runs(table: Table) -> DeepRuns:
    """Return what the runs of the figure amount to."""
    rows = finished(table)
    ends = last_epochs(rows)
    return DeepRuns(
        depth=int(rows["depth"].max()),
        width=int(rows["width"].max()),
        best=best(ends),
        mistakes={weights: _mistakes(best(members)) for weights, members in grouped(ends, "weights")},
        lowest={
            weights: float(np.nanmin([*members["train_mistakes"], np.inf]))
            for weights, members in grouped(rows, "weights")
        },
        schedule=schedule(ends, example_count(rows)),
    )


def draw(table: Table) -> Picture:
    """Return the panel: one curve per run, which ends on the line above if the run diverged."""
    rows = finished(table)
    figure, panels = canvas(1, 1, (8.0, 4.8))
    panel, marks = panels[0, 0], RateMarks(rows)
    lines = levels(rows["train_error"].to_numpy(), example_count(rows))
    mark(panel, lines)
    mark_constant(panel, constant_error(rows))
    styles = line_styles(rows)
    for _, run in grouped(rows, *RUN):
        first, every = run.iloc[0], max(1, len(run) // _MARKERS)
        look = marks.look(first["rate_in"], first["rate_out"])
        look |= {"linestyle": styles[first["weights"]], "linewidth": 1.2, "alpha": 0.85, "markevery": every}
        panel.plot(run["epoch"].to_numpy(), lines.heights(run["train_error"].to_numpy()), **look)
    epoch_axis(panel)
    plain_ticks(panel, share=True)
    panel.set_ylabel("training error")
    panel.set_title(_title(rows), fontsize=10)
    legend = [(f"{weights} weights", {"linestyle": style}) for weights, style in styles.items()]
    marks.legends(figure, *(legend if len(legend) > 1 else []))
    return figure


def line_styles(rows: DataFrame) -> dict[str, str]:
    """Return a line style per kind of weights: solid for Gaussian weights, other styles for the others."""
    others = [weights for weights in unique(rows["weights"]) if weights != "gaussian"]
    styles = {weights: ("--", ":", "-.")[place % 3] for place, weights in enumerate(others)}
    return ({"gaussian": "-"} if "gaussian" in set(rows["weights"]) else {}) | styles


def summary(table: Table) -> list[Line]:
    """Return the mistakes of the best network (C9), and what the schedule of learning rates is worth (C11)."""
    runs, examples = deep_runs(table), example_count(table.frame)
    winner, lowest = runs.best, min(runs.lowest.values())
    by_weights = [(f"best run, {weights} weights", _count(count)) for weights, count in runs.mistakes.items()]
    rates = "none" if winner is None else f"{winner['rate_in']:g} to {winner['rate_out']:g}"
    return [
        *overview(last_epochs(table.frame), "MNIST, 60,000; D = 1000, N = 249: about 50 mistakes"),
        ("depth, width", f"{runs.depth}, {runs.width}"),
        ("best run", percent(np.nan if winner is None else winner["train_error"], examples)),
        ("its rates, in to out", rates),
        *(by_weights if len(by_weights) > 1 else []),
        ("least after any epoch", _count(lowest)),
        *runs.schedule.lines(),
    ]


def panels(table: Table) -> list[Panel]:
    """Return the panel for the page."""
    from gradwalk.figures.interactive import errors_by_epoch

    return errors_by_epoch.panels(table)


FIGURE = TrainedFigure(
    name="fig4c",
    title="Figure 4C",
    caption="Training error on MNIST of networks of 1000 layers against the epoch, tanh.",
    in_paper=True,
    tabulate=by_epoch,
    draw=draw,
    summary=summary,
    panels=panels,
)


def _mistakes(run: Series[Any] | None) -> float:
    return np.nan if run is None else float(run["train_mistakes"])


def _count(mistakes: float) -> str:
    return f"{mistakes:,.0f} mistakes" if np.isfinite(mistakes) else "none"


def _title(rows: DataFrame) -> str:
    size = f"D = {rows['depth'].max():.0f}, N = {rows['width'].max():.0f}"
    return f"{data_title(rows)}, {size}, g = {listed(rows['gain'])}"

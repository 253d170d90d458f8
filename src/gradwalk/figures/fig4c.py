"""Figure 4C: training error on MNIST against the epoch at D = 1000 (N = 249, p_lim = 62e6, g = 1.05 in the paper)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gradwalk.figures import canvas
from gradwalk.figures.error_axis import epoch_axis, levels, mark, mark_constant
from gradwalk.figures.outcomes import (
    Line,
    best,
    data_title,
    example_count,
    finished,
    groups,
    overview,
    percent,
    schedule,
    schedule_lines,
    select,
)
from gradwalk.figures.rate_marks import RateMarks
from gradwalk.figures.table import Table
from gradwalk.figures.trained import by_epoch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = {"gaussian": "-", "orthogonal": "--"}
_RUN = ("depth", "gain", "rate_in", "rate_out", "weights", "seed")  # what tells the runs of the figure apart
_MARKS = 8  # about so many markers a curve

tabulate = by_epoch


def draw(table: Table) -> Figure:
    """Return the panel: a curve a run, which ends on the line above where the run diverged."""
    shown = finished(table)
    figure, panels = canvas(1, 1, (8.0, 4.8))
    panel, marks, lines = panels[0, 0], RateMarks(shown), levels(shown["train_error"], example_count(shown))
    mark(panel, lines)
    mark_constant(panel, float(shown["constant_error"][0]))
    for (_, _, rate_in, rate_out, weights, _), run in groups(shown, *_RUN):
        every = max(1, len(run["epoch"]) // _MARKS)
        look = marks.look(rate_in, rate_out) | {"linestyle": STYLES[weights], "linewidth": 1.2, "alpha": 0.85}
        panel.plot(run["epoch"], lines.heights(run["train_error"]), markevery=every, **look)
    epoch_axis(panel)
    panel.set_ylabel("training error (share of examples)")
    panel.set_title(_title(shown), fontsize=10)
    named = sorted(set(shown["weights"].tolist()))
    styles = [(f"{weights} weights", {"linestyle": STYLES[weights]}) for weights in named]
    marks.legends(figure, *(styles if len(named) > 1 else []))
    return figure


def claims(table: Table) -> dict[str, float]:
    """Return the numbers that bear on C9 and C11, by name; NaN where every run diverged.

    best_error and best_mistakes after the last epoch, by the best run, whose best_rate_in and best_rate_out they are;
    lowest_mistakes after any epoch of any run; with two kinds of weights, the mistakes of each. depth and width are the
    network's. equal_rates, unequal_rates and schedule_ratio: the best errors with lambda_in = lambda_out and without.
    """
    shown = finished(table)
    ends = last_epochs(shown)
    winner = best(ends)
    found = {name: float(shown[name].max()) for name in ("depth", "width")}
    for ours, column in (
        ("best_error", "train_error"),
        ("best_mistakes", "train_mistakes"),
        ("best_rate_in", "rate_in"),
        ("best_rate_out", "rate_out"),
    ):
        found[ours] = np.nan if winner is None else float(winner[column][0])
    found["lowest_mistakes"] = float(np.nanmin(np.append(shown["train_mistakes"], np.inf)))
    for weights in sorted(set(shown["weights"].tolist())):
        one = best(ends.where(weights=weights))
        found[f"{weights}_mistakes"] = np.nan if one is None else float(one["train_mistakes"][0])
    return found | schedule(ends, example_count(shown))


def last_epochs(table: Table) -> Table:
    """Return the last row of each run: its errors at the end, or none if it diverged."""
    last = np.zeros(len(table["epoch"]), dtype=bool)
    for values, run in groups(table, *_RUN):
        same = np.logical_and.reduce([table[name] == value for name, value in zip(_RUN, values, strict=True)])
        last |= same & (table["epoch"] == run["epoch"].max())
    return select(table, last)


def summary(table: Table) -> list[Line]:
    """Return the numbers that matter: the mistakes of the best network (C9), and the schedule's part in them (C11)."""
    found, examples = claims(table), example_count(table)
    kinds = [name for name in found if name.removesuffix("_mistakes") in STYLES]
    by_weights = [(f"best run, {name.removesuffix('_mistakes')} weights", _count(found[name])) for name in kinds]
    return [
        *overview(last_epochs(table), "MNIST, 60,000; D = 1000, N = 249: about 50 mistakes"),
        ("depth, width", f"{found['depth']:.0f}, {found['width']:.0f}"),
        ("best run", percent(found["best_error"], examples)),
        ("its rates, in to out", f"{found['best_rate_in']:g} to {found['best_rate_out']:g}"),
        *(by_weights if len(by_weights) > 1 else []),
        ("least after any epoch", _count(found["lowest_mistakes"])),
        *schedule_lines(found, examples),
    ]


def _count(mistakes: float) -> str:
    return f"{mistakes:,.0f} mistakes" if np.isfinite(mistakes) else "none"


def _title(table: Table) -> str:
    gains = ", ".join(f"{gain:g}" for gain in sorted(set(table["gain"].tolist())))
    return f"{data_title(table)}, D = {table['depth'].max():.0f}, N = {table['width'].max():.0f}, g = {gains}"

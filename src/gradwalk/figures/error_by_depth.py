"""Training error against depth and both learning rates, averaged over g: what Figures 4A, 4B and 4D share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.figures import canvas
from gradwalk.figures.error_axis import Levels, depth_axis, levels, mark, mark_constant
from gradwalk.figures.outcomes import (
    NEAR_ZERO,
    Line,
    averages,
    dependable,
    example_count,
    factor,
    finished,
    groups,
    least,
    overview,
    percent,
    ratio,
    schedule,
    schedule_lines,
    select,
    unique,
)
from gradwalk.figures.rate_marks import RateMarks
from gradwalk.figures.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST = 10.0  # mean squared error: ten times what a network that always answers with the mean has, and of no interest
_DODGE = 0.05  # in octaves, between neighbouring lambda_out, so that points of one depth can be told apart


def draw(table: Table, title: str) -> Figure:
    """Return the panel: a point for each depth and pair of rates, the mean over g; hollow where some g diverged."""
    shown = finished(table)
    points, examples = averages(shown), example_count(shown)
    figure, panels = canvas(1, 1, (8.0, 4.8))
    panel, marks = panels[0, 0], RateMarks(points)
    lines = levels(points["train_error"], examples, np.inf if examples else _MOST)
    mark(panel, lines)
    mark_constant(panel, float(shown["constant_error"][0]))
    _draw_points(panel, points, marks, lines)
    depth_axis(panel, unique(points["depth"]))
    panel.set_ylabel("training error (share of examples)" if examples else "training error (mean squared error)")
    panel.set_title(f"{title}, mean over g = {', '.join(f'{g:g}' for g in unique(shown['gain']))}", fontsize=10)
    partly = (points["diverged"] > 0) & (points["diverged"] < points["runs"])
    hollow = ("hollow: some\ng diverged", {"marker": "o", "markerfacecolor": "none"})
    marks.legends(figure, *([hollow] if partly.any() else []))
    return figure


def claims(table: Table) -> dict[str, float]:
    """Return the numbers that bear on C7, C8, C10, C11 and C12, by name; NaN where there is no such run.

    A depth D gives D_error, its least mean over g (of those without a diverged member), and D_run_error, its best
    single run. best_depth has the least D_error; deepest_ratio and second_ratio are by how much the greatest depth, and
    the second best, exceed it. equal_rates, unequal_rates and schedule_ratio compare the greatest depth's best errors
    with lambda_in = lambda_out and without. near_zero is the share of depths that get to at most 1 % mistakes.
    """
    shown = finished(table)
    examples, points = example_count(shown), averages(shown)
    found: dict[str, float] = {}
    errors: dict[float, float] = {}
    for (depth,), members in groups(points, "depth"):
        errors[depth] = least(dependable(members))
        alone = least(select(shown, shown["depth"] == depth))
        found |= {f"{depth:.0f}_error": errors[depth], f"{depth:.0f}_run_error": alone}
    ranked = sorted((error, depth) for depth, error in errors.items() if not np.isnan(error))
    deepest = max(errors)
    found |= {"best_depth": np.nan, "second_ratio": np.nan, "deepest_ratio": np.nan}
    if ranked:
        found |= {"best_depth": ranked[0][1], "deepest_ratio": ratio(errors[deepest], ranked[0][0], examples)}
    if len(ranked) > 1:
        found |= {"second_ratio": ratio(ranked[1][0], ranked[0][0], examples)}
    found |= schedule(dependable(select(points, points["depth"] == deepest)), examples)
    if examples:
        runs = np.array([found[f"{depth:.0f}_run_error"] for depth in errors])
        found["near_zero"] = float((runs <= NEAR_ZERO).mean())
    return found


def depth_ratio(table: Table, above: float, below: float) -> float:
    """Return by what factor the least error of one depth exceeds that of another."""
    found = claims(table)
    errors = [found.get(f"{depth:.0f}_error", np.nan) for depth in (above, below)]
    return ratio(errors[0], errors[1], example_count(table))


def summary(table: Table, paper: str) -> list[Line]:
    """Return the numbers that matter: the least error of each depth, the best depth, and what the schedule does."""
    found, examples = claims(table), example_count(table)
    depths = unique(finished(table)["depth"])
    lines = overview(table, paper)
    for depth in depths:
        lines.append((f"D = {depth:.0f}: least mean over g", percent(found[f"{depth:.0f}_error"], examples)))
        lines.append((f"D = {depth:.0f}: best single run", percent(found[f"{depth:.0f}_run_error"], examples)))
    deepest = f"D = {depths[-1]:.0f}"
    lines.append(("best depth", f"{found['best_depth']:.0f}"))
    lines.append((f"error of {deepest} over the best depth's", factor(found["deepest_ratio"])))
    return lines + schedule_lines(found, examples, f"{deepest}: ")


def _draw_points(panel: Axes, points: Table, marks: RateMarks, lines: Levels) -> None:
    shift = _shifts(unique(points["rate_out"]))
    for (rate_in, rate_out), same in groups(points, "rate_in", "rate_out"):
        look, x = marks.look(rate_in, rate_out), same["depth"] * 2 ** shift[rate_out]
        heights = lines.heights(same["train_error"])
        panel.plot(x, heights, color=look["color"], linewidth=0.6, alpha=0.5)
        partly = (same["diverged"] > 0) & (same["diverged"] < same["runs"])
        for chosen, face in ((~partly, look["color"]), (partly, "none")):
            panel.plot(x[chosen], heights[chosen], linestyle="none", markerfacecolor=face, alpha=0.85, **look)


def _shifts(rates: Any) -> dict[float, float]:
    """The octaves by which the points of each lambda_out stand beside their depth."""
    middle = (len(rates) - 1) / 2
    return {rate: _DODGE * (place - middle) for place, rate in enumerate(rates)}

"""Training error against depth and both learning rates, averaged over g: what Figures 4A, 4B and 4D share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gradwalk.figures.drawing import canvas
from gradwalk.figures.error_axis import Levels, depth_axis, levels, mark, mark_constant, plain_ticks
from gradwalk.figures.estimate import Estimate
from gradwalk.figures.outcomes import (
    NEAR_ZERO,
    Line,
    Schedule,
    averages,
    constant_error,
    dependable,
    example_count,
    factor,
    finished,
    grouped,
    least,
    least_estimate,
    listed,
    overview,
    partly_diverged,
    percent,
    ratio,
    schedule,
    unique,
)
from gradwalk.figures.rate_marks import RateMarks
from gradwalk.figures.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from pandas import DataFrame

    from gradwalk.figures.interactive.frame import Panel

MOST = 10.0  # a mean squared error ten times that of a constant answer; larger ones are drawn with the diverged runs
OCTAVES = 0.05  # between the points of neighbouring lambda_out at one depth, to keep them apart


@dataclass(frozen=True)
class DepthErrors:
    """The least errors by depth, and what follows from them; NaN where every run diverged.

    errors: the least mean over g, of those without a diverged member; estimates: the same with its standard error,
    infinite where every run diverged. run_errors: the best single run. schedule: the least errors of the greatest depth
    with equal and with unequal learning rates.
    """

    errors: dict[int, float]
    estimates: dict[int, Estimate]
    run_errors: dict[int, float]
    schedule: Schedule
    examples: float | None

    @property
    def deepest(self) -> int:
        """The greatest depth."""
        return max(self.errors)

    @property
    def best_depth(self) -> int | None:
        """The depth of least error, None if every run diverged."""
        ranked = sorted((error, depth) for depth, error in self.errors.items() if not np.isnan(error))
        return ranked[0][1] if ranked else None

    @property
    def near_zero(self) -> float:
        """The share of depths at which some run makes at most 1 % mistakes."""
        return float(np.mean([error <= NEAR_ZERO for error in self.run_errors.values()]))

    def ratio(self, above: int, below: int | None) -> float:
        """Return by what factor the error of one depth exceeds that of another; NaN if one of them was not run."""
        errors = [self.errors.get(depth, np.nan) for depth in (above, -1 if below is None else below)]
        return ratio(errors[0], errors[1], self.examples)


def errors_by_depth(table: Table) -> DepthErrors:
    """Return the least errors of each depth."""
    runs = finished(table)
    points, examples = averages(runs), example_count(runs)
    deepest = points[points["depth"] == points["depth"].max()]
    return DepthErrors(
        errors={depth: least(dependable(members)) for depth, members in grouped(points, "depth")},
        estimates={depth: least_estimate(dependable(members), examples) for depth, members in grouped(points, "depth")},
        run_errors={depth: least(members) for depth, members in grouped(runs, "depth")},
        schedule=schedule(dependable(deepest), examples),
        examples=examples,
    )


def draw(table: Table, title: str) -> Picture:
    """Return the panel: one point per depth and pair of rates, the mean over g; hollow where some g diverged."""
    runs = finished(table)
    points, examples = averages(runs), example_count(runs)
    figure, panels = canvas(1, 1, (8.0, 4.8))
    panel, marks = panels[0, 0], RateMarks(points)
    lines = levels(points["train_error"].to_numpy(), examples, np.inf if examples else MOST)
    mark(panel, lines)
    mark_constant(panel, constant_error(runs))
    _draw_points(panel, points, marks, lines)
    depth_axis(panel, unique(points["depth"]))
    plain_ticks(panel, share=examples is not None)
    panel.set_ylabel("training error" if examples else "training error (mean squared error)")
    panel.set_title(f"{title}, mean over g = {listed(runs['gain'])}", fontsize=10)
    hollow = ("hollow: some\ng diverged", {"marker": "o", "markerfacecolor": "none"})
    marks.legends(figure, *([hollow] if partly_diverged(points).any() else []))
    return figure


def summary(table: Table, paper: str) -> list[Line]:
    """Return the least errors of each depth, the best depth, and what the schedule of learning rates is worth."""
    by_depth = errors_by_depth(table)
    lines = overview(table.frame, paper)
    for depth, error in by_depth.errors.items():
        lines.append((f"D = {depth}: least mean over g", percent(error, by_depth.examples)))
        lines.append((f"D = {depth}: best single run", percent(by_depth.run_errors[depth], by_depth.examples)))
    deepest, best = by_depth.deepest, by_depth.best_depth
    lines.append(("best depth", "none" if best is None else f"{best}"))
    lines.append((f"error of D = {deepest} over the best depth's", factor(by_depth.ratio(deepest, best))))
    return lines + by_depth.schedule.lines(f"D = {deepest}: ")


def panels(table: Table) -> list[Panel]:
    """Return the panel for the page."""
    from gradwalk.figures.interactive import errors_by_depth

    return errors_by_depth.panels(table)


def beside_depths(points: DataFrame) -> DataFrame:
    """Return the points with a column x: their depth, moved by the place of lambda_out among those of that depth."""
    places = points.groupby("depth")["rate_out"].rank(method="dense")
    middle = (1 + places.groupby(points["depth"]).transform("max")) / 2
    return points.assign(x=points["depth"] * 2 ** (OCTAVES * (places - middle)))


def _draw_points(panel: Axes, points: DataFrame, marks: RateMarks, lines: Levels) -> None:
    for (rate_in, rate_out), same in grouped(beside_depths(points), "rate_in", "rate_out"):
        look, x = marks.look(rate_in, rate_out), same["x"].to_numpy()
        heights, partly = lines.heights(same["train_error"].to_numpy()), partly_diverged(same).to_numpy()
        panel.plot(x, heights, color=look["color"], linewidth=1.1, alpha=0.8)
        for chosen, face in ((~partly, look["color"]), (partly, "none")):
            panel.plot(x[chosen], heights[chosen], linestyle="none", markerfacecolor=face, alpha=0.85, **look)

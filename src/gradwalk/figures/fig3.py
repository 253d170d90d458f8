"""Figure 3: training error on MNIST against g, coloured by depth, for tanh and ReLU (p_lim = 4e6 in the paper).

Above, every run, whatever its learning rates; below, the least error over the learning rates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.figures.drawing import GREY, canvas
from gradwalk.figures.error_axis import Levels, levels, mark, markers, plain_ticks, shades
from gradwalk.figures.estimate import Estimate, all_below, lowest
from gradwalk.figures.figure import TrainedFigure
from gradwalk.figures.outcomes import (
    NEAR_ZERO,
    Line,
    averages,
    dependable,
    example_count,
    finished,
    grouped,
    least,
    least_estimate,
    overview,
    percent,
    unique,
)
from gradwalk.figures.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from pandas import DataFrame

    from gradwalk.figures.interactive.frame import Panel

Looks = dict[float, dict[str, Any]]

TITLES = {"tanh": "tanh", "relu": "ReLU"}
PAPERS_BEST = {"tanh": (1.1, 1.4), "relu": (1.4, 1.55)}  # what the paper reads off its own figure (C6)
DODGE = 0.008  # in g, between the points of neighbouring depths, to keep them apart

_ROUNDING = 1e-9  # of gains at the ends of a range


@dataclass(frozen=True)
class BestGain:
    """The best g of one depth, with its error, and the least error at g = 1; NaN where every run diverged.

    An error is the mean over the seeds at the best of the learning rates. in_range: whether the best g of the paper's
    range has a lower error than all g outside, None if that is too close to call.
    """

    depth: int
    gain: float
    error: float
    error_at_1: float
    in_range: bool | None


@dataclass(frozen=True)
class GainRange:
    """The best runs of one activation by depth, and how they compare with the paper's range of g.

    near_zero: the share of depths and g in the range at which some learning rate reaches at most 1 % mistakes, NaN if
    no g lies in it.
    """

    low: float
    high: float
    depths: tuple[BestGain, ...]
    near_zero: float

    @property
    def inside(self) -> int:
        """The number of depths whose best g lies in the range."""
        return sum(_within(best.gain, self.low, self.high) for best in self.depths)

    @property
    def share_inside(self) -> float:
        """The share of depths whose best g lies in the range."""
        return self.inside / len(self.depths)


def gain_ranges(table: Table) -> dict[str, GainRange]:
    """Return the best runs by activation, tanh and ReLU first; the range is NaN for an activation not in the paper."""
    runs = finished(table)
    return {name: _gain_range(name, runs[runs["activation"] == name]) for name in activations(runs)}


def draw(table: Table) -> Picture:
    """Return two panels per activation: all runs above, the minimum over the learning rates below."""
    runs = finished(table)
    names = activations(runs)
    figure, panels = canvas(2, len(names), (5.2 * len(names), 6.6), sharey=True, sharex="col")
    lines = levels(runs["train_error"].to_numpy(), example_count(runs))
    looks = _looks(unique(runs["depth"]))
    for name, (upper, lower) in zip(names, panels.T, strict=True):
        rows, last = runs[runs["activation"] == name], name == names[-1]
        for panel in (upper, lower):
            mark(panel, lines, named=last)
        _draw_all(upper, rows, lines, looks)
        _draw_least(lower, rows, lines, looks)
        upper.set_title(TITLES.get(name, name))
        lower.set_xlabel("g")
    for panel in panels.flat:
        plain_ticks(panel, share=True)
    panels[0, 0].set_ylabel("training error, all runs")
    panels[1, 0].set_ylabel("training error, minimum over\nlearning rates")
    _legend(figure, looks)
    return figure


def summary(table: Table) -> list[Line]:
    """Return the best g and its error at each depth, and what g = 1 gives."""
    examples = example_count(table.frame)
    lines = overview(table.frame, "MNIST, 60,000 examples, 4e6 parameters")
    for name, gain_range in gain_ranges(table).items():
        lines += _best_gain_lines(TITLES.get(name, name), gain_range, examples)
        if name in PAPERS_BEST:
            lines += _range_lines(TITLES[name], gain_range)
    return lines


def panels(table: Table) -> list[Panel]:
    """Return the panels for the page, all runs first."""
    from gradwalk.figures.interactive import errors_by_gain

    return errors_by_gain.panels(table)


def activations(rows: DataFrame) -> list[str]:
    """Return the activations, tanh and ReLU first, as the paper has them."""
    order = list(TITLES)
    return sorted(set(rows["activation"]), key=lambda name: (order.index(name) if name in order else len(order), name))


FIGURE = TrainedFigure(
    name="fig3",
    title="Figure 3",
    caption="Training error on MNIST against g, coloured by depth; all networks have the same number of parameters.",
    in_paper=True,
    draw=draw,
    summary=summary,
    panels=panels,
)


def _gain_range(name: str, rows: DataFrame) -> GainRange:
    low, high = PAPERS_BEST.get(name, (np.nan, np.nan))
    inside = rows[rows["gain"].between(low - _ROUNDING, high + _ROUNDING)]
    errors = np.array([least(members) for _, members in grouped(inside, "depth", "gain")])
    near_zero = float((errors <= NEAR_ZERO).mean()) if len(errors) else np.nan
    return GainRange(low, high, tuple(_best_gains(rows, low, high)), near_zero)


def _best_gains(rows: DataFrame, low: float, high: float) -> Iterator[BestGain]:
    examples = example_count(rows)
    for depth, points in grouped(averages(rows, "gain"), "depth"):
        by_gain = {gain: least_estimate(dependable(same), examples) for gain, same in grouped(points, "gain")}
        gain = min(by_gain, key=lambda gain: by_gain[gain].error)
        inside = lowest(estimate for gain, estimate in by_gain.items() if _within(gain, low, high))
        outside = [estimate for gain, estimate in by_gain.items() if not _within(gain, low, high)]
        error, at_1 = by_gain[gain].error, by_gain.get(1.0, Estimate(np.nan)).error
        best = gain if np.isfinite(error) else np.nan
        yield BestGain(int(depth), best, _known(error), _known(at_1), all_below([inside], [lowest(outside)]))


def _within(gain: float, low: float, high: float) -> bool:
    return low - _ROUNDING <= gain <= high + _ROUNDING


def _known(error: float) -> float:
    """Return the error, NaN if it is infinite."""
    return error if np.isfinite(error) else np.nan


def _best_gain_lines(title: str, gain_range: GainRange, examples: float | None) -> list[Line]:
    lines = []
    for depth in gain_range.depths:
        lines.append((f"{title}, D = {depth.depth}: best g", f"{depth.gain:g}: {percent(depth.error, examples)}"))
        if not np.isnan(depth.error_at_1):
            lines.append((f"{title}, D = {depth.depth}: at g = 1", percent(depth.error_at_1, examples)))
    return lines


def _range_lines(title: str, gain_range: GainRange) -> list[Line]:
    inside = f"{100 * gain_range.share_inside:.0f} % of depths"
    near_zero = f"{100 * gain_range.near_zero:.0f} % of depths and g in that range"
    return [
        (f"{title}: best g in {gain_range.low:g} to {gain_range.high:g}", inside),
        (f"{title}: at most {100 * NEAR_ZERO:g} % mistakes", near_zero),
    ]


def _draw_all(panel: Axes, rows: DataFrame, lines: Levels, looks: Looks) -> None:
    middle = (len(looks) - 1) / 2
    for place, depth in enumerate(looks):
        members = rows[rows["depth"] == depth]
        x = members["gain"].to_numpy() + DODGE * (place - middle)
        look = looks[depth] | {"markersize": 4, "linestyle": "none", "alpha": 0.7}
        panel.plot(x, lines.heights(members["train_error"].to_numpy()), **look)


def _draw_least(panel: Axes, rows: DataFrame, lines: Levels, looks: Looks) -> None:
    _mark_papers_best(panel, str(rows["activation"].iloc[0]))
    for depth, members in grouped(rows, "depth"):
        errors = members.groupby("gain")["train_error"].min()
        heights = lines.heights(errors.to_numpy())
        panel.plot(errors.index.to_numpy(), heights, **looks[depth], markersize=5, linewidth=1.2)


def _mark_papers_best(panel: Axes, name: str) -> None:
    if name not in PAPERS_BEST:
        return
    low, high = PAPERS_BEST[name]
    panel.axvspan(low, high, color=GREY, alpha=0.2, linewidth=0, zorder=0)
    place: dict[str, Any] = {"xycoords": panel.get_xaxis_transform(), "ha": "center", "fontsize": 8}
    label = f"best in the paper: {low:g} to {high:g}"
    panel.annotate(label, ((low + high) / 2, 1.0), (0, 3), textcoords="offset points", **place)


def _looks(depths: Sequence[float]) -> Looks:
    """Return the colour and the marker of each depth, the same in all panels."""
    colours, shapes = shades(depths), markers(depths)
    return {depth: {"color": colours[depth], "marker": shapes[depth]} for depth in colours}


def _legend(figure: Picture, looks: Looks) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=f"{depth:.0f}", **look) for depth, look in looks.items()]
    figure.legend(handles=handles, title="D", loc="outside right center", frameon=False)

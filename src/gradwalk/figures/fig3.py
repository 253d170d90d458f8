"""Figure 3: training error on MNIST against g, coloured by depth, for tanh and ReLU (p_lim = 4e6 in the paper).

Above, every run, whatever its learning rates; below, the least error over the learning rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.figures import GREY, canvas
from gradwalk.figures.error_axis import Levels, levels, mark, markers, shades
from gradwalk.figures.outcomes import (
    NEAR_ZERO,
    Line,
    best,
    example_count,
    finished,
    groups,
    least,
    overview,
    percent,
    ratio,
    select,
    unique,
)
from gradwalk.figures.table import Table
from gradwalk.figures.trained import by_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Looks = dict[float, dict[str, Any]]

TITLES = {"tanh": "tanh", "relu": "ReLU"}
PAPERS_BEST = {"tanh": (1.1, 1.4), "relu": (1.4, 1.55)}  # what the paper reads off its own figure (C6)

_DODGE = 0.008  # in g, between neighbouring depths, so that runs of one g can be told apart

tabulate = by_run


def draw(table: Table) -> Figure:
    """Return 2 panels a nonlinearity: all runs above, the minimum over the learning rates below."""
    shown = finished(table)
    names = _activations(shown)
    figure, panels = canvas(2, len(names), (5.2 * len(names), 6.6), sharey=True, sharex="col")
    lines, looks = levels(shown["train_error"], example_count(shown)), _looks(unique(shown["depth"]))
    for name, (upper, lower) in zip(names, panels.T, strict=True):
        rows, last = shown.where(activation=name), name == names[-1]
        for panel in (upper, lower):
            mark(panel, lines, named=last)
        _draw_all(upper, rows, lines, looks)
        _draw_least(lower, rows, lines, looks)
        upper.set_title(TITLES.get(name, name))
        lower.set_xlabel("g")
    panels[0, 0].set_ylabel("training error, all runs\n(share of examples)")
    panels[1, 0].set_ylabel("training error, minimum over\nlearning rates (share of examples)")
    _legend(figure, looks)
    return figure


def claims(table: Table) -> dict[str, float]:
    """Return the numbers that bear on C6 and C12, by name; NaN where a run that is asked for is missing.

    A nonlinearity `a` and a depth `D` give a_D_best_gain (the g of the run of least error), a_D_error (that error),
    a_D_error_at_1 (the least error at g = 1) and a_D_ratio_at_1 (how many times larger that is). A nonlinearity gives
    a_in_range, the share of depths whose best g lies where the paper finds it, and a_near_zero, the share of depths and
    g in that range at which some learning rate gets to at most 1 % mistakes.
    """
    shown = finished(table)
    found: dict[str, float] = {}
    examples = example_count(shown)
    for name in _activations(shown):
        rows = shown.where(activation=name)
        gains = []
        for (depth,), members in groups(rows, "depth"):
            winner, error = best(members), least(members)
            at_1 = least(select(members, members["gain"] == 1.0))
            gains.append(np.nan if winner is None else float(winner["gain"][0]))
            key = f"{name}_{depth:.0f}"
            found |= {f"{key}_best_gain": gains[-1], f"{key}_error": error}
            found |= {f"{key}_error_at_1": at_1, f"{key}_ratio_at_1": ratio(at_1, error, examples)}
        found |= _in_range(name, rows, np.array(gains))
    return found


def summary(table: Table) -> list[Line]:
    """Return the numbers that matter: the best g and its error at each depth, and what g = 1 gives."""
    found, examples = claims(table), example_count(table)
    lines = overview(table, "MNIST, 60,000 examples, 4e6 parameters")
    for name in _activations(table):
        title, (low, high) = TITLES.get(name, name), PAPERS_BEST.get(name, (np.nan, np.nan))
        for depth in unique(table.where(activation=name)["depth"]):
            key = f"{name}_{depth:.0f}"
            said = f"{found[f'{key}_best_gain']:g}: {percent(found[f'{key}_error'], examples)}"
            lines.append((f"{title}, D = {depth:.0f}: best g", said))
            at_1 = found[f"{key}_error_at_1"]
            if not np.isnan(at_1):
                lines.append((f"{title}, D = {depth:.0f}: at g = 1", percent(at_1, examples)))
        if name in PAPERS_BEST:
            share, near = found[f"{name}_in_range"], found[f"{name}_near_zero"]
            lines.append((f"{title}: best g in {low:g} to {high:g}", f"{100 * share:.0f} % of depths"))
            what = f"{title}: at most {100 * NEAR_ZERO:g} % mistakes"
            lines.append((what, f"{100 * near:.0f} % of depths and g in that range"))
    return lines


def _in_range(name: str, rows: Table, gains: Any) -> dict[str, float]:
    low, high = PAPERS_BEST.get(name, (np.nan, np.nan))
    inside = select(rows, (rows["gain"] >= low - 1e-9) & (rows["gain"] <= high + 1e-9))
    errors = np.array([least(members) for _, members in groups(inside, "depth", "gain")])
    near = float((errors <= NEAR_ZERO).mean()) if len(errors) else np.nan
    share = float(((gains >= low - 1e-9) & (gains <= high + 1e-9)).mean())
    return {f"{name}_in_range": share, f"{name}_near_zero": near}


def _draw_all(panel: Axes, rows: Table, lines: Levels, looks: Looks) -> None:
    middle = (len(looks) - 1) / 2
    for place, depth in enumerate(looks):
        members = select(rows, rows["depth"] == depth)
        x = members["gain"] + _DODGE * (place - middle)
        look = looks[depth] | {"markersize": 4, "linestyle": "none", "alpha": 0.7}
        panel.plot(x, lines.heights(members["train_error"]), **look)


def _draw_least(panel: Axes, rows: Table, lines: Levels, looks: Looks) -> None:
    _mark_papers_best(panel, str(rows["activation"][0]))
    for (depth,), members in groups(rows, "depth"):
        points = [(gain, least(same)) for (gain,), same in groups(members, "gain")]
        gains, errors = np.array(points).T
        panel.plot(gains, lines.heights(errors), **looks[depth], markersize=5, linewidth=1.2)


def _mark_papers_best(panel: Axes, name: str) -> None:
    if name not in PAPERS_BEST:
        return
    low, high = PAPERS_BEST[name]
    panel.axvspan(low, high, color=GREY, alpha=0.2, linewidth=0, zorder=0)
    place: dict[str, Any] = {"xycoords": panel.get_xaxis_transform(), "ha": "center", "fontsize": 8}
    label = f"best in the paper: {low:g} to {high:g}"
    panel.annotate(label, ((low + high) / 2, 1.0), (0, 3), textcoords="offset points", **place)


def _looks(depths: Sequence[float]) -> Looks:
    """The colour and the marker of each depth, the same in all panels."""
    colours, shapes = shades(depths), markers(depths)
    return {depth: {"color": colours[depth], "marker": shapes[depth]} for depth in colours}


def _legend(figure: Figure, looks: Looks) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=f"{depth:.0f}", **look) for depth, look in looks.items()]
    figure.legend(handles=handles, title="D", loc="outside right center", frameon=False)


def _activations(table: Table) -> list[str]:
    """The nonlinearities of the table, tanh and ReLU first, as the paper has them."""
    found = dict.fromkeys(table["activation"].tolist())
    return sorted(found, key=lambda name: (list(TITLES).index(name) if name in TITLES else len(TITLES), name))

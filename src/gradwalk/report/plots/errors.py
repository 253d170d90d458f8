"""Figures 3 and 4 for the page: training errors, each point with the run it comes from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import plotly.graph_objects as go

from gradwalk.data import title as data_title
from gradwalk.figures import fig3
from gradwalk.figures.error_axis import Levels, levels
from gradwalk.figures.outcomes import averages, best, example_count, finished, groups, percent, select, unique
from gradwalk.figures.table import Table
from gradwalk.report.plots.frame import (
    BAND,
    INK,
    MUTED,
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

_DODGE = 0.008  # in g, between neighbouring depths
_OCTAVES = 0.05  # between neighbouring lambda_out, so that points of one depth can be told apart
_MOST = 10.0  # mean squared error: larger ones lie with the diverged runs, as in the printable figure
_DASHES = {"gaussian": "solid", "orthogonal": "dash"}
_NAMES = {"gaussian": "Gaussian", "orthogonal": "orthogonal"}
_RUN = ("gain", "rate_in", "rate_out", "weights", "seed")


def gain_panels(table: Table) -> list[Panel]:
    """Figure 3: every run above, the best over the learning rates below, for each nonlinearity."""
    shown = finished(table)
    examples = example_count(shown)
    lines = levels(shown["train_error"], examples)
    axis = error_axis(shown["train_error"], lines, examples, None)
    return [
        _by_gain(shown.where(activation=name), lines, axis, title, chosen)
        for title, chosen in (("all runs", _every), ("best over the learning rates", _best_of_each))
        for name in fig3.TITLES
        if (shown["activation"] == name).any()
    ]


def depth_panels(table: Table) -> list[Panel]:
    """Figures 4A, 4B and 4D: a point for each depth and pair of rates, the mean over g."""
    shown = finished(table)
    points, examples = averages(shown), example_count(shown)
    lines = levels(points["train_error"], examples, np.inf if examples else _MOST)
    colours, shapes = shades(points["rate_out"].tolist()), symbols(points["rate_in"].tolist())
    middle = (len(colours) - 1) / 2
    shift = {rate: _OCTAVES * (place - middle) for place, rate in enumerate(colours)}
    traces = []
    for (rate_in, rate_out), same in groups(points, "rate_in", "rate_out"):
        partly = (same["diverged"] > 0) & (same["diverged"] < same["runs"])
        shape = np.where(partly, f"{shapes[rate_in]}-open", shapes[rate_in])
        members = [_members(shown, depth, rate_in, rate_out) for depth in same["depth"]]
        look = {"marker": {"symbol": shape.tolist(), "size": 8, "color": colours[rate_out]}, "width": 0.6}
        look |= {"mode": "lines+markers", "text": members, "hovertemplate": "%{text}<extra></extra>"}
        x = same["depth"] * 2 ** shift[rate_out]
        traces.append(line(x, lines.heights(same["train_error"]), colours[rate_out], showlegend=False, **look))
    traces += _rate_legend(colours, shapes)
    depths, gains = unique(points["depth"]), ", ".join(f"{g:g}" for g in unique(shown["gain"]))
    constant = float(shown["constant_error"][0])
    y_axis = error_axis(points["train_error"], lines, examples, constant)
    some = (points["diverged"] > 0) & (points["diverged"] < points["runs"])
    title = f"{data_title(str(shown['data'][0]))}, mean over g = {gains}" + (
        "; hollow: some g diverged" if some.any() else ""
    )
    return [panel(title, traces, depth_axis(depths), y_axis, wide=True, **_legends(), **error_levels(lines, constant))]


def epoch_panels(table: Table) -> list[Panel]:
    """Figure 4C: a curve a run, which ends on the line above where the run diverged."""
    shown = finished(table)
    lines = levels(shown["train_error"], example_count(shown))
    colours, shapes = shades(shown["rate_out"].tolist()), symbols(shown["rate_in"].tolist())
    traces = []
    for (_, rate_in, rate_out, weights, _), run in groups(shown, *_RUN):
        said = _settings(run, 0) + "<br>epoch %{x}: %{customdata}<extra></extra>"
        errors = [_error(run, row) for row in range(len(run["epoch"]))]
        look: dict[str, Any] = {"dash": _DASHES[str(weights)], "width": 1.3, "mode": "lines+markers"}
        look |= {"marker": {"symbol": shapes[rate_in], "size": 6}, "customdata": errors}
        look |= {"hovertemplate": said, "showlegend": False}
        traces.append(line(run["epoch"], lines.heights(run["train_error"]), colours[rate_out], **look))
    kinds = sorted(set(shown["weights"].tolist()))
    traces += _rate_legend(colours, shapes)
    if len(kinds) > 1:
        traces += [
            _key(f"{_NAMES[kind]} weights", legend="legend3", mode="lines", line={"color": INK, "dash": _DASHES[kind]})
            for kind in kinds
        ]
    depth, width = shown["depth"].max(), shown["width"].max()
    title = f"{data_title(str(shown['data'][0]))}, D = {depth:.0f}, N = {width:.0f}, error by epoch"
    constant = float(shown["constant_error"][0])
    x_axis = {"title": {"text": "epoch"}, "dtick": max(1, round(np.nanmax(shown["epoch"]) / 10))}
    y_axis = error_axis(shown["train_error"], lines, example_count(shown), constant)
    return [panel(title, traces, x_axis, y_axis, wide=True, **_legends(), **error_levels(lines, constant))]


def _by_gain(rows: Table, lines: Levels, axis: dict[str, Any], title: str, chosen: Callable[[Table], Table]) -> Panel:
    name, every = str(rows["activation"][0]), chosen is _every
    colours, shapes = shades(rows["depth"].tolist()), symbols(rows["depth"].tolist())
    traces, middle = [], (len(colours) - 1) / 2
    for place, ((depth,), members) in enumerate(groups(rows, "depth")):
        points = chosen(members)
        said = [_told(points, row) for row in range(len(points["gain"]))]
        look: dict[str, Any] = {
            "mode": "markers" if every else "lines+markers",
            "name": f"D = {depth:.0f}",
            "width": 1.2,
        }
        look |= {"marker": {"symbol": shapes[depth], "size": 6 if every else 8}, "opacity": 0.75 if every else 1.0}
        look |= {"text": said, "hovertemplate": "%{text}<extra></extra>"}
        x = points["gain"] + (_DODGE * (place - middle) if every else 0.0)
        traces.append(line(x, lines.heights(points["train_error"]), colours[depth], **look))
    marks = error_levels(lines, None)
    low, high = fig3.PAPERS_BEST[name]
    span = {"type": "rect", "yref": "paper", "y0": 0, "y1": 1, "x0": low, "x1": high, "layer": "below"}
    marks["shapes"].append(span | {"fillcolor": BAND, "line": {"width": 0}})
    full = f"{fig3.TITLES[name]}, {title}; shaded: best in the paper, {low:g} to {high:g}"
    return panel(full, traces, {"title": {"text": "g"}}, axis, **marks)


def _every(rows: Table) -> Table:
    return rows


def _best_of_each(rows: Table) -> Table:
    """The best run of each g; where all of them diverged, one of those."""
    found = [best(same) or select(same, np.arange(len(same["gain"])) == 0) for _, same in groups(rows, "gain")]
    return Table({name: np.concatenate([each[name] for each in found]) for name in rows.columns})


def _members(shown: Table, depth: float, rate_in: float, rate_out: float) -> str:
    """What the mean over g at a point consists of."""
    same = (shown["depth"] == depth) & (shown["rate_in"] == rate_in) & (shown["rate_out"] == rate_out)
    rows, examples = select(shown, same), example_count(shown)
    mean = averages(rows)["train_error"][0]
    each = [f"g = {rows['gain'][row]:g}: {_error(rows, row)}" for row in range(len(rows["gain"]))]
    head = f"D = {depth:.0f}, N = {rows['width'][0]:.0f}, λ in {rate_in:g}, λ out {rate_out:g}"
    return "<br>".join([head, f"mean {percent(float(mean), examples)}", *each])


def _told(rows: Table, row: int) -> str:
    """A run in words: its settings, its error, what it did on held-out data."""
    lines = [_settings(rows, row), f"training error {_error(rows, row)}"]
    held = float(rows["test_error"][row])
    if not np.isnan(held):
        lines.append(f"held out {percent(held, example_count(rows) and float(rows['test_examples'][row]))}")
    return "<br>".join(lines)


def _settings(rows: Table, row: int) -> str:
    """What the run was, in two lines."""
    first = f"{rows['activation'][row]}, g = {rows['gain'][row]:g}, D = {rows['depth'][row]:.0f}"
    second = f"λ in {rows['rate_in'][row]:g}, λ out {rows['rate_out'][row]:g}, {rows['weights'][row]} weights"
    return f"{first}, N = {rows['width'][row]:.0f}<br>{second}, seed {rows['seed'][row]:.0f}"


def _error(rows: Table, row: int) -> str:
    error = float(rows["train_error"][row])
    return "diverged" if np.isnan(error) else percent(error, example_count(rows))


def _rate_legend(colours: dict[float, str], shapes: dict[float, str]) -> list[Trace]:
    """The entries of both legends: a colour for lambda_out, a marker for lambda_in."""
    out = [
        _key(f"{rate:g}", marker={"color": colour, "symbol": "square", "size": 10}) for rate, colour in colours.items()
    ]
    into = [
        _key(f"{rate:g}", legend="legend2", marker={"color": MUTED, "symbol": shape, "size": 9})
        for rate, shape in shapes.items()
    ]
    return [*out, *into]


def _key(name: str, **look: Any) -> Trace:
    return go.Scatter(**{"x": [None], "y": [None], "mode": "markers", "name": name, "showlegend": True} | look)


def _legends() -> dict[str, Any]:
    place = {
        "orientation": "h",
        "x": 0,
        "xanchor": "left",
        "yref": "container",
        "yanchor": "bottom",
        "font": {"size": 11},
    }
    return {
        "legend": place | {"y": 0.0, "title": {"text": "λ<sub>out</sub> "}},
        "legend2": place | {"y": 0.08, "title": {"text": "λ<sub>in</sub> "}},
        "legend3": place | {"y": 0.16},
    }

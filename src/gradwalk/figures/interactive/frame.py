"""What interactive panels share: their layout, colours, and the axis of errors.

Colours are CSS variables such as `var(--blue)`, which the page's script resolves for its light or dark theme.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from gradwalk.activations import Array
from gradwalk.figures.error_axis import Levels

INK, MUTED, GRID = "var(--ink)", "var(--muted)", "var(--grid)"
BLUE, RED, GREEN, BAND = "var(--blue)", "var(--red)", "var(--green)", "var(--band)"
ORANGE, PURPLE = "var(--orange)", "var(--purple)"
SHADES = 9  # the page's variables --shade-0 to --shade-8: viridis, without its ends that vanish on the background
SYMBOLS = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "triangle-down",
    "cross",
    "x",
    "triangle-left",
    "triangle-right",
    "star",
)

_SHORT_LEGEND = 4  # entries
_MARGIN = 0.12  # decades above and below the errors
_DECADES = 1.6  # an axis that spans more has ticks at decades only

Value = TypeVar("Value")
Trace = dict[str, Any]  # as plotly.js reads it


@dataclass(frozen=True)
class Panel:
    """Traces and layout of plotly.js with a title; a wide panel takes the whole width of the page."""

    title: str
    traces: Sequence[Trace]
    layout: Mapping[str, Any]
    wide: bool = False

    @property
    def tall(self) -> bool:
        """Whether the legend needs so much room that the panel should be taller."""
        return sum(trace.get("showlegend") is not False for trace in self.traces) > _SHORT_LEGEND

    @property
    def json(self) -> str:
        """Traces and layout as JSON that is safe inside a script element."""
        text = json.dumps(_plain({"data": list(self.traces), "layout": self.layout}), separators=(",", ":"))
        return text.replace("<", "\\u003c")


def panel(
    title: str,
    traces: Sequence[Trace],
    x: Mapping[str, Any],
    y: Mapping[str, Any],
    *,
    wide: bool = False,
    **more: Any,
) -> Panel:
    """Return a panel of these traces; x and y are settings of the axes, `more` of the layout."""
    legend = {"orientation": "h", "x": 0, "xanchor": "left", "yref": "container", "font": {"size": 11}}
    axis = {"gridcolor": GRID, "linecolor": MUTED, "zeroline": False, "automargin": True, "title": {"standoff": 8}}
    layout = {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": INK, "size": 12, "family": "system-ui, sans-serif"},
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "hovermode": "closest",
        "showlegend": any(trace.get("showlegend") is not False for trace in traces),
        "hoverlabel": {"bgcolor": "var(--card)", "bordercolor": MUTED, "font": {"color": INK}, "align": "left"},
        "legend": legend | {"y": 0, "yanchor": "bottom"},
        "xaxis": _merged(axis, x),
        "yaxis": _merged(axis, y),
    }
    return Panel(title, traces, layout | more, wide)


def line(x: Array, y: Array, color: str, **look: Any) -> Trace:
    """Return a line trace; `dash` and `width` style the line, everything else is passed to the trace."""
    style = {"color": color} | {name: look.pop(name) for name in ("dash", "width") if name in look}
    return {"type": "scatter", "x": x, "y": y, "mode": "lines", "line": style} | look


def even_line(start: float, spacing: float, y: Array, color: str, **look: Any) -> Trace:
    """Return a line trace over equidistant points, whose places take no room on the page."""
    trace = line(np.empty(0), y, color, **look)
    del trace["x"]
    return trace | {"x0": start, "dx": spacing}


def band(x: Array, low: Array, high: Array, name: str) -> Trace:
    """Return the filled area between two lines."""
    around, edge = np.concatenate([x, x[::-1]]), np.concatenate([high, low[::-1]])
    look = {"fill": "toself", "fillcolor": BAND, "line": {"width": 0}, "mode": "lines", "hoverinfo": "skip"}
    return {"type": "scatter", "x": around, "y": edge, "name": name} | look


def level(at: float, color: str = MUTED, dash: str = "dot") -> dict[str, Any]:
    """Return a horizontal line across the panel, as a shape."""
    across = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": at, "y1": at, "layer": "below"}
    return across | {"line": {"color": color, "dash": dash, "width": 1}}


def note(text: str, at: float, *, log: bool = True, right: bool = False) -> dict[str, Any]:
    """Return a label at the left or right end of such a line; on a logarithmic axis Plotly expects the logarithm."""
    across = (
        {"xref": "paper", "x": 0.99, "xanchor": "right"} if right else {"xref": "paper", "x": 0.01, "xanchor": "left"}
    )
    place = across | {"y": float(np.log10(at)) if log else at, "yanchor": "bottom"}
    return place | {"text": text, "showarrow": False, "font": {"size": 10, "color": MUTED}}


def depth_axis(depths: Sequence[float]) -> dict[str, Any]:
    """Return the settings of a horizontal axis that is logarithmic in depth, with ticks at these depths."""
    names = [f"{depth:.0f}" for depth in depths]
    return {"type": "log", "title": {"text": "depth D (layers)"}, "tickvals": list(depths), "ticktext": names}


def error_levels(lines: Levels, constant: float | None, name: str = "constant answer") -> dict[str, Any]:
    """Return lines and labels for what a logarithmic axis cannot show, and for the error of a constant answer."""
    marked = [(at, label.replace("\n", " "), "dot") for at, label in lines.names if at is not None]
    if constant is not None:
        marked.append((constant, name, "dash"))
    return {
        "shapes": [level(at, dash=dash) for at, _, dash in marked],
        "annotations": [note(label, at) for at, label, _ in marked],
    }


def error_axis(errors: Array, lines: Levels, examples: float | None, constant: float | None) -> dict[str, Any]:
    """Return the settings of a vertical axis with room for these errors and lines; shares are in per cent."""
    heights = lines.heights(errors)
    marked = [at for at in (lines.floor, lines.ceiling, constant) if at is not None]
    low, high = (float(np.log10(end)) for end in (min(*heights, *marked), max(*heights, *marked)))
    what = "training error" if examples else "training error (mean squared error)"
    return {
        "type": "log",
        "title": {"text": what},
        "range": [low - _MARGIN, high + _MARGIN],
        "dtick": 1 if high - low > _DECADES else "D2",  # "D2" adds ticks at 2 and 5 of each decade
        "tickformat": "~%" if examples else "~g",
    }


def shades(values: Iterable[Value]) -> dict[Value, str]:
    """Return one colour per value, across the whole range of shades in ascending order.

    >>> shades([4, 16, 64])
    {4: 'var(--shade-0)', 16: 'var(--shade-4)', 64: 'var(--shade-8)'}
    """
    order = sorted(set(values))  # type: ignore[type-var]
    places = np.linspace(0, SHADES - 1, len(order)) if len(order) > 1 else [SHADES // 3]
    return {value: f"var(--shade-{round(place)})" for value, place in zip(order, places, strict=True)}


def symbols(values: Iterable[Value]) -> dict[Value, str]:
    """Return one marker per value, in ascending order; they repeat after ten values."""
    order = sorted(set(values))  # type: ignore[type-var]
    return {value: SYMBOLS[place % len(SYMBOLS)] for place, value in enumerate(order)}


def _merged(common: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return both mappings merged, one level deep."""
    return common | {
        key: common[key] | value if isinstance(value, dict) and key in common else value for key, value in own.items()
    }


def _plain(value: Any) -> Any:
    """Return what JSON can hold: numbers to six digits, more than a screen shows, and null for what is not finite."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, str | bool | int | None):
        return value
    if isinstance(value, float | np.number):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return [_plain(item) for item in value]

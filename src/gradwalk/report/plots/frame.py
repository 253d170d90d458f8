"""What the interactive pictures share: panels, colours by the page's CSS variables, the axis of errors.

A colour here is `var(--blue)` and the like: the page puts in what the variable is in its light or dark dress.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import plotly.graph_objects as go

from gradwalk.activations import Array
from gradwalk.figures.error_axis import Levels

INK, MUTED, GRID = "var(--ink)", "var(--muted)", "var(--grid)"
BLUE, RED, GREEN, BAND = "var(--blue)", "var(--red)", "var(--green)", "var(--band)"
ORANGE, PURPLE = "var(--orange)", "var(--purple)"
SHADES = 9  # the page's variables --shade-0 to --shade-8: viridis, as much of it as stands out from the ground
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

_ROOM, _DECADES = 0.12, 1.6  # of the axis of errors: above and below, and beyond which only its decades are named

Value = TypeVar("Value")
Trace = Any  # Plotly has no types


@dataclass(frozen=True)
class Panel:
    """A picture with its title; wide: it takes the whole width of the page."""

    title: str
    figure: go.Figure
    wide: bool = False

    @property
    def json(self) -> str:
        """Its traces and layout, for a script element of the page: Plotly writes "<" as an escape in it."""
        return str(self.figure.to_json())


def panel(title: str, traces: Sequence[Trace], x: Mapping[str, Any], y: Mapping[str, Any], **more: Any) -> Panel:
    """Return a panel of these traces, with axes of these settings; `legend2` beside others is a second legend below."""
    wide = more.pop("wide", False)
    legend = {"orientation": "h", "x": 0, "xanchor": "left", "yref": "container", "font": {"size": 11}}
    axis = {"gridcolor": GRID, "linecolor": MUTED, "zeroline": False, "automargin": True, "title": {"standoff": 8}}
    figure = go.Figure(list(traces))
    figure.update_layout(
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": INK, "size": 12, "family": "system-ui, sans-serif"},
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        hovermode="closest",
        showlegend=any(trace.showlegend is not False for trace in traces),
        hoverlabel={"bgcolor": "var(--card)", "bordercolor": MUTED, "font": {"color": INK}, "align": "left"},
        legend=legend | {"y": 0, "yanchor": "bottom"},
        xaxis=_deep(axis, x),
        yaxis=_deep(axis, y),
    )
    figure.update_layout(**more)
    return Panel(title, figure, wide)


def line(x: Array, y: Array, color: str, **look: Any) -> Trace:
    """Return a line; dash and width are settings of the line, all else of the trace."""
    style = {"color": color} | {name: look.pop(name) for name in ("dash", "width") if name in look}
    return go.Scatter(x=x, y=_short(y), mode=look.pop("mode", "lines"), line=style, **look)


def band(x: Array, low: Array, high: Array, name: str) -> Trace:
    """Return the ground between two lines."""
    around, edge = np.concatenate([x, x[::-1]]), np.concatenate([high, low[::-1]])
    look = {"fill": "toself", "fillcolor": BAND, "line": {"width": 0}, "mode": "lines", "hoverinfo": "skip"}
    return go.Scatter(x=around, y=_short(edge), name=name, **look)


def level(at: float, color: str = MUTED, dash: str = "dot") -> dict[str, Any]:
    """Return a line across the panel, as a shape."""
    across = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": at, "y1": at, "layer": "below"}
    return across | {"line": {"color": color, "dash": dash, "width": 1}}


def note(text: str, at: float, log: bool = True) -> dict[str, Any]:
    """Return words at the right end of such a line; Plotly wants the logarithm on an axis that has one."""
    place = {"xref": "paper", "x": 1, "xanchor": "right", "y": float(np.log10(at)) if log else at, "yanchor": "bottom"}
    return place | {"text": text, "showarrow": False, "font": {"size": 10, "color": MUTED}}


def depth_axis(depths: Sequence[float]) -> dict[str, Any]:
    """Return the settings of a level axis of the depth's logarithm, with these depths named."""
    names = [f"{depth:.0f}" for depth in depths]
    return {"type": "log", "title": {"text": "depth D (layers)"}, "tickvals": list(depths), "ticktext": names}


def error_levels(lines: Levels, constant: float | None, name: str = "constant answer") -> dict[str, Any]:
    """Return the shapes and notes of what a logarithmic axis cannot show, and of a constant answer's error."""
    named = [(at, name.replace("\n", " "), "dot") for at, name in lines.names if at is not None]
    if constant is not None:
        named.append((constant, name, "dash"))
    return {
        "shapes": [level(at, dash=dash) for at, _, dash in named],
        "annotations": [note(name, at) for at, name, _ in named],
    }


def error_axis(errors: Array, lines: Levels, examples: float | None, constant: float | None) -> dict[str, Any]:
    """Return the settings of an upright axis that has room for these errors and lines; shares are in per cent."""
    heights = lines.heights(errors)
    marked = [at for at in (lines.floor, lines.ceiling, constant) if at is not None]
    low, high = (float(np.log10(end)) for end in (min(*heights, *marked), max(*heights, *marked)))
    what = "training error" if examples else "training error (mean squared error)"
    return {
        "type": "log",
        "title": {"text": what},
        "range": [low - _ROOM, high + _ROOM],
        "dtick": 1 if high - low > _DECADES else "D2",  # "D2" also names the 2 and the 5 of a decade
        "tickformat": "~%" if examples else "~g",
    }


def shades(values: Iterable[Value]) -> dict[Value, str]:
    """Return a colour for each value, from one end of the shades to the other in their order.

    >>> shades([4, 16, 64])
    {4: 'var(--shade-0)', 16: 'var(--shade-4)', 64: 'var(--shade-8)'}
    """
    order = sorted(set(values))  # type: ignore[type-var]
    places = np.linspace(0, SHADES - 1, len(order)) if len(order) > 1 else [SHADES // 3]
    return {value: f"var(--shade-{round(place)})" for value, place in zip(order, places, strict=True)}


def symbols(values: Iterable[Value]) -> dict[Value, str]:
    """Return a marker for each value, in their order; past ten values they come round again."""
    order = sorted(set(values))  # type: ignore[type-var]
    return {value: SYMBOLS[place % len(SYMBOLS)] for place, value in enumerate(order)}


def _deep(common: dict[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Both, one level into what both have."""
    return common | {
        key: common[key] | value if isinstance(value, dict) and key in common else value for key, value in own.items()
    }


def _short(values: Array) -> Array:
    """Single precision is more than a screen shows, and half the size of the page."""
    return np.asarray(values, dtype=np.float32)

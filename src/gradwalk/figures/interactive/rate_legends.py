"""The legends of Figure 4: colour is lambda_out, marker is lambda_in, and further entries in a third legend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gradwalk.figures.interactive.frame import INK, MUTED, Trace

_PLACE = {"orientation": "h", "x": 0, "xanchor": "left", "yref": "container", "yanchor": "bottom", "font": {"size": 11}}

LAYOUT = {
    "legend": _PLACE | {"y": 0.0, "title": {"text": "λ<sub>out</sub> "}},
    "legend2": _PLACE | {"y": 0.08, "title": {"text": "λ<sub>in</sub> "}},
    "legend3": _PLACE | {"y": 0.16},
}


def rate_keys(colours: Mapping[float, str], shapes: Mapping[float, str]) -> list[Trace]:
    """Return the entries of the first two legends: one per lambda_out, one per lambda_in."""
    out = [
        _key(f"{rate:g}", marker={"color": colour, "symbol": "square", "size": 10}) for rate, colour in colours.items()
    ]
    into = [
        _key(f"{rate:g}", legend="legend2", marker={"color": MUTED, "symbol": shape, "size": 9})
        for rate, shape in shapes.items()
    ]
    return [*out, *into]


def dash_keys(dashes: Mapping[str, str]) -> list[Trace]:
    """Return the entries of the third legend: one per line style."""
    return [
        _key(name, legend="legend3", mode="lines", line={"color": INK, "dash": dash}) for name, dash in dashes.items()
    ]


def _key(name: str, **look: Any) -> Trace:
    return {"type": "scatter", "x": [None], "y": [None], "mode": "markers", "name": name, "showlegend": True} | look

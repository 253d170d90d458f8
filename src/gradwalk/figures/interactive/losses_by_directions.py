"""Training loss against predicted directions for the page: one panel per depth, one point per network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradwalk.figures import learning as figure
from gradwalk.figures.error_axis import Levels, levels
from gradwalk.figures.interactive.frame import (
    BLUE,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PURPLE,
    RED,
    SYMBOLS,
    Panel,
    Trace,
    error_axis,
    error_levels,
    panel,
)
from gradwalk.figures.loss_by_depth import CHANCE, MOST, title
from gradwalk.figures.outcomes import grouped
from gradwalk.figures.remedied import family
from gradwalk.remedies import ENOUGH

if TYPE_CHECKING:
    from pandas import DataFrame, Series

_COLOURS = {"linear": INK, "tanh": BLUE, "relu": RED, "selu": PURPLE, "gelu": GREEN}


def panels(cells: DataFrame) -> list[Panel]:
    """Return one panel per depth."""
    losses = cells["loss"].to_numpy()
    lines = levels(losses, None, MOST)
    y_axis = error_axis(losses, lines, None, CHANCE) | {"title": {"text": "training loss"}}
    x_axis = {"type": "log", "title": {"text": "predicted directions"}, "tickvals": [1, 2, 6, 12, 24, 48]}
    marks = error_levels(lines, CHANCE, "chance, ln 10")
    marks["shapes"] = [*marks["shapes"], *(_upright(limit) for limit in (figure.FEW, ENOUGH))]
    return [
        panel(f"D = {depth:.0f}, N = {figure.listed_widths(same)}", _traces(same, lines), x_axis, y_axis, **marks)
        for depth, same in grouped(cells, "depth")
    ]


def _traces(cells: DataFrame, lines: Levels) -> list[Trace]:
    """Return one trace per family of activations and weights."""
    families = cells.assign(family=cells["activation"].map(family))
    return [_trace(name, weights, same, lines) for (name, weights), same in grouped(families, "family", "weights")]


def _trace(name: str, weights: str, cells: DataFrame, lines: Levels) -> Trace:
    order = list(_COLOURS)
    symbol = SYMBOLS[order.index(name) if name in order else len(order)]
    look: dict[str, Any] = {"size": 9, "color": _COLOURS.get(name, ORANGE)}
    look |= {"symbol": symbol if weights == "orthogonal" else f"{symbol}-open"}
    look |= {"opacity": [1.0 if healthy else 0.3 for healthy in cells["healthy"]]}
    return {
        "type": "scatter",
        "mode": "markers",
        "x": cells["directions"].to_numpy(),
        "y": lines.heights(cells["loss"].to_numpy()),
        "name": f"{figure.TITLES.get(name, name)}, {weights}",
        "marker": look,
        "text": [_words(cell) for _, cell in cells.iterrows()],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _words(cell: Series[Any]) -> str:
    """Return a network, what is predicted of it, and its loss."""
    loss = f"{cell['loss']:.3f}" if cell["loss"] == cell["loss"] else "diverged"
    passing = f"{cell['directions']:.1f} ± {cell['standard_error']:.1f} directions, spread {cell['spread']:.2g}"
    return f"{cell['activation']}, {title(cell['weights'])}<br>{passing}<br>loss {loss} at rate {cell['rate']:g}"


def _upright(at: float) -> dict[str, Any]:
    """Return a vertical line across the panel, as a shape."""
    across = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": at, "x1": at, "layer": "below"}
    return across | {"line": {"color": MUTED, "dash": "dot", "width": 1}}

"""How Figure 4 tells learning rates apart: a colour for lambda_out, a marker for lambda_in, and the legends of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradwalk.figures import BLACK, GREY
from gradwalk.figures.error_axis import markers, shades
from gradwalk.figures.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class RateMarks:
    """The look of every pair of learning rates in a table."""

    def __init__(self, table: Table) -> None:
        self.colours = shades(table["rate_out"].tolist())
        self.shapes = markers(table["rate_in"].tolist())

    def look(self, rate_in: float, rate_out: float) -> dict[str, Any]:
        """Return the colour and the marker of this pair."""
        return {"color": self.colours[rate_out], "marker": self.shapes[rate_in], "markersize": 6}

    def legends(self, figure: Figure, *more: tuple[str, dict[str, Any]]) -> None:
        """Draw the legend of both at the right of the figure; `more` are further labels and the looks they name."""
        from matplotlib.lines import Line2D

        def entry(label: str, **look: Any) -> Line2D:
            settings: dict[str, Any] = {"linestyle": "none", "markersize": 6, "color": BLACK, "label": label}
            return Line2D([], [], **settings | look)

        colours = [entry(f"{rate:g}", marker="s", color=colour) for rate, colour in self.colours.items()]
        shapes = [entry(f"{rate:g}", marker=shape, color=GREY) for rate, shape in self.shapes.items()]
        heading = {"alpha": 0.0}
        handles = [entry(r"$\lambda_{out}$ (colour)", **heading), *colours]
        handles += [entry(r"$\lambda_{in}$ (marker)", **heading), *shapes]
        handles += [entry(label, **look) for label, look in more]
        figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=9)

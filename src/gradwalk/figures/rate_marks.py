"""How Figure 4 distinguishes learning rates: colour is lambda_out, marker is lambda_in; with the legend of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradwalk.figures.drawing import BLACK, GREY
from gradwalk.figures.error_axis import markers, shades

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

_ONE_COLUMN = 24  # entries of a legend that fit beside a panel


class RateMarks:
    """The colour and marker of each pair of learning rates in some rows of a table."""

    def __init__(self, rows: DataFrame) -> None:
        self.colours = shades(rows["rate_out"].tolist())
        self.shapes = markers(rows["rate_in"].tolist())

    def look(self, rate_in: float, rate_out: float) -> dict[str, Any]:
        """Return the colour and the marker of a pair."""
        return {"color": self.colours[rate_out], "marker": self.shapes[rate_in], "markersize": 6}

    def legends(self, figure: Figure, *more: tuple[str, dict[str, Any]]) -> None:
        """Draw the legend on the right of the figure; `more` are further labels with their looks."""
        from matplotlib.lines import Line2D

        def entry(label: str, **look: Any) -> Line2D:
            settings: dict[str, Any] = {"linestyle": "none", "markersize": 6, "color": BLACK, "label": label}
            return Line2D([], [], **settings | look)

        colours = [entry(f"{rate:g}", marker="s", color=colour) for rate, colour in self.colours.items()]
        shapes = [entry(f"{rate:g}", marker=shape, color=GREY) for rate, shape in self.shapes.items()]
        heading = {"alpha": 0.0}
        by_colour = [entry(r"$\lambda_{out}$ (colour)", **heading), *colours]
        by_marker = [entry(r"$\lambda_{in}$ (marker)", **heading), *shapes]
        by_marker += [entry(label, **look) for label, look in more]
        if len(by_colour) + len(by_marker) <= _ONE_COLUMN:
            figure.legend(handles=by_colour + by_marker, loc="outside right center", frameon=False, fontsize=9)
            return
        longest = max(len(by_colour), len(by_marker))
        blank = [entry("", **heading)]
        handles = [each for column in (by_colour, by_marker) for each in column + blank * (longest - len(column))]
        figure.legend(
            handles=handles,
            loc="outside right center",
            ncols=2,
            frameon=False,
            fontsize=7.5,
            labelspacing=0.35,
            columnspacing=0.8,
            handletextpad=0.2,
        )

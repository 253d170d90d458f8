"""Figure 4D: training error on TIMIT frames against depth and learning rates, tanh, averaged over g."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradwalk.figures import error_by_depth
from gradwalk.figures.figure import TrainedFigure
from gradwalk.figures.outcomes import Line, data_title, factor
from gradwalk.figures.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


def draw(table: Table) -> Picture:
    """Return the panel, log2 of the depth against log10 of the error."""
    return error_by_depth.draw(table, f"{data_title(table.frame)}, frame classification")


def summary(table: Table) -> list[Line]:
    """Return the errors of each depth, and whether D = 16 and 32 are tied (C10)."""
    lines = error_by_depth.summary(table, "all of TIMIT; D = 16 best, 32 tied")
    return [*lines, ("error of D = 32 over D = 16", factor(error_by_depth.errors_by_depth(table).ratio(32, 16)))]


FIGURE = TrainedFigure(
    name="fig4d",
    title="Figure 4D",
    caption="Training error on frames of speech (TIMIT) against depth and learning rates, tanh.",
    in_paper=True,
    needs="It needs the TIMIT corpus (LDC93S1), which the Linguistic Data Consortium licenses for a fee and which "
    "gradwalk therefore cannot download. With a copy of it, in any of its usual layouts, name its folder.",
    options="--data timit=FOLDER",
    draw=draw,
    summary=summary,
    panels=error_by_depth.panels,
)

"""Figure 4A: training error on MNIST against depth and learning rates, tanh, averaged over g."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradwalk.figures import error_by_depth
from gradwalk.figures.figure import TrainedFigure
from gradwalk.figures.outcomes import Line, data_title
from gradwalk.figures.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


def draw(table: Table) -> Picture:
    """Return the panel, log2 of the depth against log10 of the error."""
    return error_by_depth.draw(table, f"{data_title(table.frame)}, classification")


def summary(table: Table) -> list[Line]:
    """Return the errors of each depth: does the shallowest net have the least (C7)?"""
    return error_by_depth.summary(table, "MNIST, 60,000; D = 2 best, then 16 and 32")


FIGURE = TrainedFigure(
    name="fig4a",
    title="Figure 4A",
    caption="Training error on MNIST against depth and learning rates, tanh.",
    in_paper=True,
    draw=draw,
    summary=summary,
    panels=error_by_depth.panels,
)

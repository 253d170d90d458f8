"""Figure 4B: reconstruction error of MNIST auto-encoders against depth and learning rates (p_lim = 16e6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradwalk.figures import error_by_depth
from gradwalk.figures.figure import TrainedFigure
from gradwalk.figures.outcomes import Line, data_title, factor
from gradwalk.figures.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


def draw(table: Table) -> Picture:
    """Return the panel, log2 of the depth against log10 of the mean squared error per pixel (of unit variance)."""
    return error_by_depth.draw(table, f"{data_title(table.frame)}, auto-encoder")


def summary(table: Table) -> list[Line]:
    """Return the errors of each depth, and by what factor the deepest net's exceeds the shallowest one's (C8)."""
    lines = error_by_depth.summary(table, "MNIST, 60,000; D = 128 about 2 times D = 4")
    by_depth = error_by_depth.errors_by_depth(table)
    deepest, shallowest = by_depth.deepest, min(by_depth.errors)
    return [*lines, (f"error of D = {deepest} over D = {shallowest}", factor(by_depth.ratio(deepest, shallowest)))]


FIGURE = TrainedFigure(
    name="fig4b",
    title="Figure 4B",
    caption="Reconstruction error of MNIST auto-encoders with 30 code units against depth and learning rates, tanh.",
    in_paper=True,
    draw=draw,
    summary=summary,
    panels=error_by_depth.panels,
)

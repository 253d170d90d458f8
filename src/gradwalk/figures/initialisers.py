"""Initialisers by depth: training loss after a fixed number of steps, for each activation; not in the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradwalk.figures import loss_by_depth
from gradwalk.figures.figure import TrainedFigure
from gradwalk.figures.outcomes import Line, finished
from gradwalk.figures.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture
    from pandas import DataFrame

    from gradwalk.figures.interactive.frame import Panel

ACTIVATIONS = {"tanh": "tanh", "relu": "ReLU", "selu": "selu", "gelu": "gelu", "gelu*100": "steady gelu, f(100 a)/100"}


def runs(table: Table) -> DataFrame:
    """Return the runs of the figure, in one panel per activation."""
    rows = finished(table)
    return loss_by_depth.in_panels(rows, list(rows["activation"]), ACTIVATIONS)


def summary(table: Table) -> list[Line]:
    """Return the best walk and the best peer at each depth."""
    return loss_by_depth.summary(runs(table))


def draw(table: Table) -> Picture:
    """Return one panel per activation: the median loss of each initialiser against depth."""
    return loss_by_depth.draw(runs(table))


def panels(table: Table) -> list[Panel]:
    """Return one panel per activation for the page."""
    from gradwalk.figures.interactive import losses_by_depth

    return losses_by_depth.panels(runs(table))


FIGURE = TrainedFigure(
    name="initialisers",
    title="Initialisers",
    caption="Not in the paper: training loss after the same small number of steps against depth, for each initialiser; "
    "the median over the seeds at the best of the same learning rates, with bars from the least to the greatest.",
    draw=draw,
    summary=summary,
    panels=panels,
)

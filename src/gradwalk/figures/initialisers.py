"""Initialisers by depth: training loss after a fixed number of steps, for each activation; not in the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradwalk.figures import loss_by_depth
from gradwalk.figures.figure import TrainedFigure
from gradwalk.figures.outcomes import Line, finished
from gradwalk.figures.remedied import family, remedy
from gradwalk.figures.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture
    from pandas import DataFrame

    from gradwalk.figures.interactive.frame import Panel

ACTIVATIONS = {"tanh": "tanh", "relu": "ReLU", "selu": "selu", "gelu": "gelu"}


def runs(table: Table) -> DataFrame:
    """Return the runs of the figure, in one panel per activation; a remedy is shown beside what it is for."""
    rows = finished(table)
    names = [
        loss_by_depth.remedied_weights(remedy(activation), weights)
        for activation, weights in zip(rows["activation"], rows["weights"], strict=True)
    ]
    return loss_by_depth.in_panels(rows.assign(weights=names), list(rows["activation"].map(family)), ACTIVATIONS)


def summary(table: Table) -> list[Line]:
    """Return the best walk, the best peer and the best remedy at each depth."""
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
    "the median over the seeds at the best of the same learning rates, with bars from the least to the greatest. A "
    "leak makes the activation s a + (1 - s) f(a), with the s that leak_for proposes for the depth.",
    draw=draw,
    summary=summary,
    panels=panels,
)

"""Optimizers by depth: random walk initialization with other optimizers and with weight decay (section 4 of the paper).

The paper trained with plain gradient descent and without regularization, and expects its initialization to be
compatible with others. The figure shows training loss after a fixed number of steps from random walk weights and from
torch's default. Dropout is missing: the training code has none.
"""

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

OPTIMIZERS = {"sgd": "SGD", "momentum": "momentum", "nesterov": "Nesterov", "adam": "Adam", "adamw": "AdamW"}


def method(optimizer: str, weight_decay: float) -> str:
    """Return the title of a method.

    >>> method("sgd", 0.0), method("adam", 1e-3)
    ('SGD', 'Adam, weight decay 0.001')
    """
    title = OPTIMIZERS.get(optimizer, optimizer)
    return f"{title}, weight decay {weight_decay:g}" if weight_decay else title


def runs(table: Table) -> DataFrame:
    """Return the runs of the figure, in one panel per method."""
    rows = finished(table)
    pairs = sorted(set(zip(rows["weight_decay"], rows["optimizer"], strict=True)), key=_place)
    titles = [method(optimizer, decay) for decay, optimizer in pairs]
    own = [method(optimizer, decay) for optimizer, decay in zip(rows["optimizer"], rows["weight_decay"], strict=True)]
    return loss_by_depth.in_panels(rows, own, dict(zip(titles, titles, strict=True)))


def summary(table: Table) -> list[Line]:
    """Return the losses from random walk weights and from others at each depth."""
    return loss_by_depth.summary(runs(table))


def draw(table: Table) -> Picture:
    """Return one panel per method: the median loss of each initialiser against depth."""
    return loss_by_depth.draw(runs(table))


def panels(table: Table) -> list[Panel]:
    """Return one panel per method for the page."""
    from gradwalk.figures.interactive import losses_by_depth

    return losses_by_depth.panels(runs(table))


FIGURE = TrainedFigure(
    name="optimizers",
    title="Optimizers",
    caption="Not in the paper, which used plain gradient descent: training loss after the same small number of steps "
    "against depth, for other optimizers and with weight decay, from random walk weights and from torch’s default; the "
    "median over the seeds at the best of the same learning rates.",
    draw=draw,
    summary=summary,
    panels=panels,
)


def _place(pair: tuple[float, str]) -> tuple[float, int, str]:
    """Return where a method is shown: without weight decay first, in the order of the optimizers."""
    decay, optimizer = pair
    order = list(OPTIMIZERS)
    return decay, order.index(optimizer) if optimizer in order else len(order), optimizer

"""Figure 4A: training error on MNIST against depth and learning rates, tanh, averaged over g."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradwalk.figures import error_by_depth
from gradwalk.figures.error_by_depth import claims
from gradwalk.figures.outcomes import Line, data_title
from gradwalk.figures.table import Table
from gradwalk.figures.trained import by_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["claims", "draw", "summary", "tabulate"]

tabulate = by_run


def draw(table: Table) -> Figure:
    """Return the panel, log2 of the depth against log10 of the error."""
    return error_by_depth.draw(table, f"{data_title(table)}, classification")


def summary(table: Table) -> list[Line]:
    """Return the numbers that matter: does the shallowest net have the least error (C7)."""
    return error_by_depth.summary(table, "MNIST, 60,000; D = 2 best, then 16 and 32")

"""Figure 4D: training error on TIMIT frames against depth and learning rates, tanh, averaged over g."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradwalk.figures import error_by_depth
from gradwalk.figures.error_by_depth import depth_ratio
from gradwalk.figures.outcomes import Line, data_title, factor
from gradwalk.figures.table import Table
from gradwalk.figures.trained import by_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

tabulate = by_run


def draw(table: Table) -> Figure:
    """Return the panel, log2 of the depth against log10 of the error."""
    return error_by_depth.draw(table, f"{data_title(table)}, frame classification")


def summary(table: Table) -> list[Line]:
    """Return the numbers that matter: which depth is best, and whether D = 16 and 32 are tied (C10)."""
    lines = error_by_depth.summary(table, "all of TIMIT; D = 16 best, 32 tied")
    return [*lines, ("error of D = 32 over D = 16", factor(depth_ratio(table, 32, 16)))]

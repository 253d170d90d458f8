"""Figure 4B: reconstruction error of MNIST auto-encoders against depth and learning rates (p_lim = 16e6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradwalk.figures import error_by_depth
from gradwalk.figures.error_by_depth import depth_ratio
from gradwalk.figures.outcomes import Line, data_title, factor, unique
from gradwalk.figures.table import Table
from gradwalk.figures.trained import by_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

tabulate = by_run


def draw(table: Table) -> Figure:
    """Return the panel, log2 of the depth against log10 of the mean squared error a pixel (of unit variance)."""
    return error_by_depth.draw(table, f"{data_title(table)}, auto-encoder")


def summary(table: Table) -> list[Line]:
    """Return the numbers that matter: by how much the deepest net's error exceeds the shallowest one's (C8)."""
    lines = error_by_depth.summary(table, "MNIST, 60,000; D = 128 about 2 times D = 4")
    depths = unique(table["depth"])
    name = f"error of D = {depths[-1]:.0f} over D = {depths[0]:.0f}"
    return [*lines, (name, factor(depth_ratio(table, depths[-1], depths[0])))]

"""The figures as Plotly draws them in the page, from the same tables as the printable ones: one function a figure."""

from __future__ import annotations

from gradwalk.figures.table import Table
from gradwalk.report.plots import errors, gains, initialisers, walks
from gradwalk.report.plots.frame import Panel

_PANELS = {
    "fig1": walks.panels,
    "fig2": gains.panels,
    "fig3": errors.gain_panels,
    "fig4a": errors.depth_panels,
    "fig4b": errors.depth_panels,
    "fig4c": errors.epoch_panels,
    "fig4d": errors.depth_panels,
    "initialisers": initialisers.panels,
}


def panels(name: str, table: Table) -> list[Panel]:
    """Return the panels of the figure of that name."""
    return _PANELS[name](table)

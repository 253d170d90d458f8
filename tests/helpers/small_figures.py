"""Figures 1 and 2 small enough for a test."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from matplotlib.figure import Figure

from gradwalk import figures
from gradwalk.figures import FIGURES, SimulatedFigure, Table, canvas, fig1, fig2
from gradwalk.registry import Registry

SIZES = {
    "fig1": (fig1.compute, {"width": 10, "depth": 8, "walks": 20, "shown": 3}),
    "fig2": (fig2.compute, {"widths": (10, 20), "narrow": (), "points": 3, "width": 10, "depth": 5, "walks": (10, 10)}),
}


def blank(_: Table) -> Figure:
    """Draw an empty panel, which takes a tenth of the time of a figure with its labels."""
    return canvas(1, 1, (1, 1))[0]


def use_small_figures(monkeypatch: pytest.MonkeyPatch, *, empty: bool = False) -> list[tuple[str, int]]:
    """Replace the figures by small ones, and return a list to which each computation adds its name and seed.

    empty: draw nothing in them, for tests that do not look at the pictures.
    """
    computed: list[tuple[str, int]] = []

    def small(name: str) -> Callable[[int], Table]:
        compute, size = SIZES[name]

        def compute_small(seed: int) -> Table:
            computed.append((name, seed))
            return compute(seed, **size)

        return compute_small

    replaced = [
        replace(figure, compute=small(figure.name), **{"draw": blank} if empty else {})
        if isinstance(figure, SimulatedFigure) and figure.name in SIZES
        else figure
        for figure in FIGURES
    ]
    monkeypatch.setattr(figures, "FIGURES", Registry("figure", replaced))
    return computed

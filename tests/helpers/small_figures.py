"""Figures 1 and 2 small enough for a test."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from gradwalk import figures
from gradwalk.figures import FIGURES, SimulatedFigure, Table, fig1, fig2
from gradwalk.registry import Registry

SIZES = {
    "fig1": (fig1.compute, {"width": 10, "depth": 8, "walks": 20, "shown": 3}),
    "fig2": (fig2.compute, {"widths": (10, 20), "narrow": (), "points": 3, "width": 10, "depth": 5, "walks": (10, 10)}),
}


def use_small_figures(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Replace the figures by small ones, and return a list to which each computation adds its name and seed."""
    computed: list[tuple[str, int]] = []

    def small(name: str) -> Callable[[int], Table]:
        compute, size = SIZES[name]

        def compute_small(seed: int) -> Table:
            computed.append((name, seed))
            return compute(seed, **size)

        return compute_small

    replaced = [
        replace(figure, compute=small(figure.name))
        if isinstance(figure, SimulatedFigure) and figure.name in SIZES
        else figure
        for figure in FIGURES
    ]
    monkeypatch.setattr(figures, "FIGURES", Registry("figure", replaced))
    return computed

"""Figures: one module each, with a record that `FIGURES` lists by name.

    FIGURES.register(SimulatedFigure(name="mine", title="Mine", caption="...", compute=compute, draw=draw))

makes a figure of your own part of `gradwalk reproduce mine` and of the page.
"""

from gradwalk.figures import (
    directions,
    fig1,
    fig2,
    fig3,
    fig4a,
    fig4b,
    fig4c,
    fig4d,
    initialisers,
    learning,
    optimizers,
)
from gradwalk.figures.drawing import (
    BLACK,
    BLUE,
    ENDINGS,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    canvas,
    ending,
    plot_walks,
    save,
    zero_line,
)
from gradwalk.figures.figure import SCALES, Figure, Scale, SimulatedFigure, TrainedFigure
from gradwalk.figures.run_table import by_epoch, by_run
from gradwalk.figures.table import Table
from gradwalk.registry import Registry

FIGURES: Registry[Figure] = Registry(
    "figure",
    [
        module.FIGURE
        for module in (
            *(fig1, fig2, fig3, fig4a, fig4b, fig4c, fig4d),
            *(initialisers, directions, learning, optimizers),
        )
    ],
)

__all__ = [
    "BLACK",
    "BLUE",
    "ENDINGS",
    "FIGURES",
    "GREEN",
    "GREY",
    "ORANGE",
    "PURPLE",
    "RED",
    "SCALES",
    "Figure",
    "Scale",
    "SimulatedFigure",
    "Table",
    "TrainedFigure",
    "by_epoch",
    "by_run",
    "canvas",
    "ending",
    "plot_walks",
    "save",
    "zero_line",
]

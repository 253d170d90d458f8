"""The figures, one module each: `compute` or `tabulate` gives its table, and `draw` draws it from that.

A table is written as CSV beside the picture, so that a figure redraws without simulating or training again. matplotlib
is imported where something is drawn, and only its objects are used: no pyplot, no global state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

from gradwalk import checks
from gradwalk.activations import Array
from gradwalk.figures.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gradwalk.data import Dataset
    from gradwalk.sweep import Result

SIMULATED = ("fig1", "fig2")
TRAINED = ("fig3", "fig4a", "fig4b", "fig4c", "fig4d")  # by sweeps, whose specs are in specs/
NAMES = SIMULATED + TRAINED
OURS = ("initialisers",)  # not in the paper; trained by a sweep as well
EVERY = NAMES + OURS
ENDINGS = (".png", ".pdf", ".svg")

# Okabe and Ito's hues, which colour-blind readers tell apart; line styles and markers differ as well.
BLACK, GREY, RED, GREEN, BLUE = "#000000", "#999999", "#D55E00", "#009E73", "#0072B2"
ORANGE, PURPLE = "#E69F00", "#CC79A7"

_UNDATED: dict[str, dict[str, Any]] = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}, ".png": {}}


class FigureModule(Protocol):
    """What the module of every figure offers."""

    def draw(self, table: Table) -> Figure: ...

    def summary(self, table: Table) -> list[tuple[str, str]]: ...


class SimulatedFigure(FigureModule, Protocol):
    """A figure that simulates what it shows."""

    def compute(self, seed: int) -> Table: ...


class TrainedFigure(FigureModule, Protocol):
    """A figure that shows the results of a sweep."""

    def tabulate(self, found: Sequence[Result], loaded: Mapping[tuple[Any, ...], Dataset]) -> Table: ...


def simulated_figure(name: str) -> SimulatedFigure:
    """Return the module of Figure 1 or 2."""
    return cast(SimulatedFigure, _module(name, SIMULATED))


def trained_figure(name: str) -> TrainedFigure:
    """Return the module of Figure 3, of a panel of Figure 4, or of a figure of our own."""
    return cast(TrainedFigure, _module(name, TRAINED + OURS))


def figure_module(name: str) -> FigureModule:
    """Return the module of the figure of that name."""
    return cast(FigureModule, _module(name, EVERY))


def _module(name: str, names: Sequence[str]) -> ModuleType:
    return import_module(f"gradwalk.figures.{checks.one_of('figures', 'figure', name, names)}")


def canvas(rows: int, columns: int, size: tuple[float, float], **sharing: Any) -> tuple[Figure, Any]:
    """Return an empty figure of that size in inches and its panels, a rows x columns array of axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, **sharing)
    for panel in panels.flat:
        panel.spines[["top", "right"]].set_visible(False)
    return figure, panels


def plot_walks(panel: Axes, travelled: Array, log_norm: Array) -> None:
    """Draw walks, one a row, against the layers travelled back, in blues that can be told apart."""
    for index, walk in enumerate(log_norm):
        panel.plot(travelled, walk, color=BLUE, alpha=0.25 + 0.5 * (index % 3 == 0), linewidth=0.6)
    panel.set_ylabel(r"$\ln\,|\delta_d|/|\delta_D|$")
    panel.set_xlim(float(travelled[0]), float(travelled[-1]))


def zero_line(panel: Axes, color: str, label: str | None = None) -> None:
    """Draw the line at 0, where an unbiased walk has its mean."""
    panel.axhline(0.0, color=color, linewidth=1.2, label=label)


def save(figure: Figure, paths: Sequence[Path]) -> None:
    """Write the figure to each path, in the format of its ending; the same figure gives the same bytes."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "gradwalk"}):
        for path in paths:
            figure.savefig(path, dpi=180, metadata=_UNDATED[ending(path)])


def ending(path: Path) -> str:
    """Return the ending of the path if it is one that can be drawn, or say which can."""
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"figures: a figure is written as {', '.join(ENDINGS)}, got {path.name!r}")
    return path.suffix.lower()

"""Do predicted directions predict learning? Training loss after a fixed number of steps against them; not in the paper.

All networks start from random walk weights, so that the norm of their gradients is unbiased. What differs is how many
directions pass, which the sampler predicts for a network of that width and depth without seeing it or its data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from gradwalk.checks import Weights
from gradwalk.figures import loss_by_depth
from gradwalk.figures.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, canvas
from gradwalk.figures.error_axis import MARKERS, levels, mark, mark_constant, plain_ticks
from gradwalk.figures.figure import TrainedFigure
from gradwalk.figures.loss_by_depth import CHANCE, MOST
from gradwalk.figures.outcomes import Line, finished, grouped, overview, unique
from gradwalk.figures.remedied import family
from gradwalk.figures.run_table import by_run
from gradwalk.figures.table import Table
from gradwalk.gains import SERVICEABLE
from gradwalk.remedies import ENOUGH
from gradwalk.remedies.families import Setting, outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from pandas import DataFrame

    from gradwalk.data import Datasets
    from gradwalk.figures.interactive.frame import Panel
    from gradwalk.sweep import Result

FEW = 2.0  # directions below which a network is not expected to learn in these steps
COLOURS = {"linear": BLACK, "tanh": BLUE, "relu": RED, "selu": PURPLE, "gelu": GREEN}
TITLES = {"relu": "ReLU"}


class Prediction(NamedTuple):
    """What the sampler predicts of a network: directions that pass backward, their standard error, and the spread."""

    directions: float
    standard_error: float
    spread: float


def predicted(activation: str, width: int, depth: int, weights: Weights) -> Prediction:
    """Return the prediction at the unbiased gain; one direction and an infinite spread where there is no such gain."""
    from gradwalk import activations

    reached = outcome(activations.activation(activation), Setting(width, depth, weights))
    return Prediction(reached.directions, reached.standard_error, reached.spread)


def tabulate(results: Sequence[Result], datasets: Datasets) -> Table:
    """Return one row per run, with the prediction for its network."""
    table = by_run(results, datasets)
    keys = ["activation", "width", "depth", "weights"]
    cells = table.frame[keys].drop_duplicates()
    made = [Prediction(*predicted(*cell)) for cell in cells.itertuples(index=False, name=None)]
    columns = {name: [getattr(each, name) for each in made] for name in Prediction._fields}
    return replace(table, frame=table.frame.merge(cells.assign(**columns), on=keys, how="left"))


def cells(table: Table) -> DataFrame:
    """Return one row per activation, weights and depth: the loss, the prediction, and whether its norm is healthy.

    loss is the median over the seeds at the best of the learning rates, NaN if that diverged.
    """
    runs = finished(table)
    rows = loss_by_depth.medians(loss_by_depth.in_panels(runs, list(runs["activation"]), {}))
    keys = ["activation", "weights", "depth"]
    known = runs[[*keys, "width", *Prediction._fields]].drop_duplicates(keys)
    joined = rows.rename(columns={"panel": "activation"}).merge(known, on=keys)
    return joined.assign(healthy=joined["spread"] <= SERVICEABLE)


def correlation(rows: DataFrame) -> float:
    """Return the rank correlation (Spearman's) of directions and loss, where a diverged median is the largest loss."""
    from scipy import stats

    return float(stats.spearmanr(rows["directions"], rows["loss"].fillna(math.inf)).statistic)


def summary(table: Table) -> list[Line]:
    """Return the rank correlation at each depth, and the losses at few and at enough directions."""
    runs, rows = finished(table), cells(table)
    lines = overview(runs, "does not have this figure")
    for depth, same in grouped(rows[rows["healthy"]], "depth"):
        words = f"{correlation(same):.2f} over {len(same)} networks"
        lines.append((f"rank correlation of directions and loss, D = {depth:.0f}", words))
    return lines


def draw(table: Table) -> Picture:
    """Return one panel per depth: the loss against the predicted number of directions."""
    rows = cells(table)
    depths = unique(rows["depth"])
    figure, axes = canvas(1, len(depths), (4.0 * len(depths) + 1.6, 4.0), sharey=True)
    lines = levels(rows["loss"].to_numpy(), None, MOST)
    for place, (depth, panel) in enumerate(zip(depths, axes.flat, strict=True)):
        mark(panel, lines, named=place == len(depths) - 1)
        mark_constant(panel, CHANCE, "chance,\nln 10")
        same = rows[rows["depth"] == depth]
        panel.axvline(ENOUGH, color=GREY, linestyle=":", linewidth=1)
        panel.axvline(FEW, color=GREY, linestyle=":", linewidth=1)
        _draw_points(panel, same.assign(height=lines.heights(same["loss"].to_numpy())))
        plain_ticks(panel, share=False)
        width = listed_widths(same)
        panel.set(xscale="log", xlabel="predicted directions", title=f"D = {depth:.0f}, N = {width}")
        panel.set_xticks([1, 2, 6, 12, 24, 48], labels=["1", "2", "6", "12", "24", "48"])
        panel.minorticks_off()
    axes[0, 0].set_ylabel("training loss at the best of the rates:\nmedian, least and greatest of the seeds")
    _legend(figure, rows)
    return figure


def panels(table: Table) -> list[Panel]:
    """Return one panel per depth for the page."""
    from gradwalk.figures.interactive import losses_by_directions

    return losses_by_directions.panels(cells(table))


def listed_widths(rows: DataFrame) -> str:
    """Return the widths of the networks in words."""
    return ", ".join(f"{width:.0f}" for width in unique(rows["width"]))


FIGURE = TrainedFigure(
    name="learning",
    title="Directions and learning",
    caption="Not in the paper: training loss after the same small number of steps against the number of directions "
    "that the sampler predicts to pass, from random walk weights; the median over the seeds at the best of the same "
    "learning rates, with bars from the least to the greatest. Filled: orthogonal weights; open: Gaussian; faint: the "
    "predicted spread of the final log-norm is above 2, so that the norm is not healthy either.",
    tabulate=tabulate,
    draw=draw,
    summary=summary,
    panels=panels,
)


def _draw_points(panel: Axes, rows: DataFrame) -> None:
    for (name, weights), same in grouped(rows.assign(family=rows["activation"].map(family)), "family", "weights"):
        for healthy, points in grouped(same, "healthy"):
            heights = points["height"].to_numpy()
            bars = loss_by_depth.reach(points, heights)
            look = _look(name, weights) | {"alpha": 1.0 if healthy else 0.3}
            panel.errorbar(points["directions"], heights, bars, linestyle="none", elinewidth=0.8, **look)


def _look(name: str, weights: str) -> dict[str, Any]:
    order = list(COLOURS)
    place = order.index(name) if name in order else len(order)
    colour = COLOURS.get(name, ORANGE)
    face = colour if weights == "orthogonal" else "white"
    return {"color": colour, "marker": MARKERS[place], "markerfacecolor": face, "markersize": 6}


def _legend(figure: Picture, rows: DataFrame) -> None:
    from matplotlib.lines import Line2D

    known = set(map(family, rows["activation"]))
    names = [*(name for name in COLOURS if name in known), *sorted(known - set(COLOURS))]
    handles = [
        Line2D([], [], linestyle="none", label=f"{TITLES.get(name, name)}, {weights}", **_look(name, weights))
        for name in names
        for weights in unique(rows["weights"])
    ]
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=9)

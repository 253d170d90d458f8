"""Training loss after a fixed number of steps against depth, for random walk initialization and other initialisers.

What the figures of initialisers and of optimizers share. All initialisers choose from the same learning rates: at each
depth, the one with the least median loss over the seeds counts. The loss of a network that calls all ten classes
equally likely is ln 10. The functions take runs, the rows of a table with the title of their panel in the column
`panel`; panels are shown in the order in which they first occur. Runs with a remedy have its name and their weights in
the column `weights`, as in "leak, orthogonal" (`remedied_weights`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from gradwalk.activations import Array
from gradwalk.checks import WEIGHTS
from gradwalk.figures.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, canvas
from gradwalk.figures.error_axis import MARKERS, Levels, depth_axis, levels, mark, mark_constant, plain_ticks
from gradwalk.figures.outcomes import Line, grouped, overview, unique

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from pandas import DataFrame

Outcome = Literal["walk", "peer", "tied", "none"]

COMPARED = ("gaussian", "orthogonal", "torch", "xavier", "kaiming", "plain-orthogonal", "lsuv")  # in this order

CHANCE = math.log(10)  # the loss of ten classes called equally likely
LEARNED = 0.9  # of the chance loss: above this, nothing was learned
CLEARLY = 0.98  # a loss below this fraction of another is lower; otherwise they are tied
MOST = 10.0  # larger losses are drawn with the diverged runs
OCTAVES = 0.06  # between the points of neighbouring initialisers at one depth, to keep them apart

_COLOURS = (RED, BLUE, GREY, BLACK, PURPLE, ORANGE, GREEN)
_MARKERS = "osvPXD^"
_REMEDIES = (GREEN, PURPLE)  # with solid lines, which peers do not have


class Contest(NamedTuple):
    """The best walk and the best peer at one depth, with their losses, infinite if all of their runs diverged."""

    depth: float
    walk: str
    loss: float
    peer: str
    peer_loss: float

    @property
    def outcome(self) -> Outcome:
        """Which of the two has the lower loss; "none" if neither learned."""
        if min(self.loss, self.peer_loss) > LEARNED * CHANCE:
            return "none"
        if self.loss < CLEARLY * self.peer_loss:
            return "walk"
        return "peer" if self.peer_loss < CLEARLY * self.loss else "tied"


def in_panels(runs: DataFrame, key: Sequence[str], titles: Mapping[str, str]) -> DataFrame:
    """Return the runs with their panel: by a key for each of them, in the order of its titles, others after them."""
    order = [*titles, *sorted(set(key) - set(titles))]
    panels = runs.assign(panel=[titles.get(name, name) for name in key])
    return panels.iloc[np.argsort([order.index(name) for name in key], kind="stable")]


def medians(runs: DataFrame) -> DataFrame:
    """Return one row per panel, initialiser and depth, at the learning rate with the least median loss.

    loss: the median over the seeds, of which a diverged one counts as infinitely large; NaN if that is infinite. least
    and most: over the seeds that did not diverge. runs and diverged count the seeds.
    """
    keys = ["panel", "weights", "depth"]
    by_rate = runs.groupby([*keys, "rate_in"], as_index=False).agg(
        loss=("train_loss", _median),
        least=("train_loss", "min"),
        most=("train_loss", "max"),
        runs=("train_loss", "size"),
        diverged=("train_loss", lambda losses: int(losses.isna().sum())),
    )
    chosen = by_rate.loc[by_rate.groupby(keys)["loss"].idxmin()]
    return chosen.rename(columns={"rate_in": "rate"}).replace({"loss": {math.inf: math.nan}}).reset_index(drop=True)


def contests(runs: DataFrame) -> dict[str, list[Contest]]:
    """Return by panel the contest of each depth at which walks and peers were both run, without remedies."""
    points, taking_gain = medians(runs[~runs["weights"].map(has_remedy)]), walks()
    by_panel: dict[str, list[Contest]] = {}
    for name in panels(runs):
        for depth, same in grouped(points[points["panel"] == name], "depth"):
            walk, peer = _lowest(same, taking_gain), _lowest(same, set(same["weights"]) - taking_gain)
            if walk and peer:
                by_panel.setdefault(name, []).append(Contest(depth, *walk, *peer))
    return by_panel


def lower_from(by_depth: Sequence[Contest]) -> float | None:
    """Return the least depth from which the walk has the lower loss at every depth run; None if there is none.

    >>> lower_from([Contest(4, "gaussian", 0.5, "lsuv", 0.4), Contest(64, "orthogonal", 0.6, "lsuv", 2.3)])
    64
    """
    start = None
    for contest in reversed(by_depth):
        if contest.outcome != "walk":
            break
        start = contest.depth
    return start


def remedied(runs: DataFrame) -> dict[str, list[tuple[float, str, float]]]:
    """Return by panel the lowest of our losses at each depth, remedies included: depth, weights, loss."""
    points = medians(runs[runs["weights"].map(ours)])
    by_panel: dict[str, list[tuple[float, str, float]]] = {}
    for name in panels(runs):
        for depth, same in grouped(points[points["panel"] == name], "depth"):
            if lowest := _lowest(same, set(same["weights"])):
                by_panel.setdefault(name, []).append((depth, *lowest))
    return by_panel


def summary(runs: DataFrame) -> list[Line]:
    """Return the best walk, the best peer and the best remedy at each depth."""
    lines, remedies = overview(runs, "does not have this figure"), medians(runs[runs["weights"].map(has_remedy)])
    for name, by_depth in contests(runs).items():
        for contest in by_depth:
            own = remedies[(remedies["panel"] == name) & (remedies["depth"] == contest.depth)]
            sides = [(contest.walk, contest.loss), (contest.peer, contest.peer_loss), _lowest(own, set(own["weights"]))]
            lines.append((f"{name}, D = {contest.depth:.0f}", "; ".join(loss_of(*side) for side in sides if side)))
    return lines


def loss_of(weights: str, loss: float) -> str:
    """Return an initialiser and its loss in words.

    >>> loss_of("lsuv", 0.25), loss_of("torch", math.inf)
    ('LSUV 0.250', 'torch default diverged')
    """
    return f"{title(weights)} {loss_words(loss)}"


def loss_words(loss: float) -> str:
    """Return a loss in words.

    >>> loss_words(0.25), loss_words(9e5), loss_words(math.nan)
    ('0.250', 'over 10', 'diverged')
    """
    if not np.isfinite(loss):
        return "diverged"
    return f"{loss:.3f}" if loss <= MOST else f"over {MOST:g}"


def titles() -> dict[str, str]:
    """Return the titles of all registered initialisers by name, those of the specs first; empty without torch."""
    try:
        from gradwalk.nets import INITIALISERS
    except ModuleNotFoundError:
        return {}
    return {record.name: record.title for record in INITIALISERS}


def walks() -> frozenset[str]:
    """Return the names of the initialisers that draw random walks: those that take a gain."""
    try:
        from gradwalk.nets import INITIALISERS
    except ModuleNotFoundError:
        return frozenset(WEIGHTS)
    return frozenset(record.name for record in INITIALISERS if record.takes_gain)


def title(weights: str) -> str:
    """Return the name of an initialiser as the legend has it."""
    return titles().get(weights, weights)


def remedied_weights(remedy: str, weights: str) -> str:
    """Return what stands for the weights of a run with a remedy.

    >>> remedied_weights("leak", "orthogonal"), remedied_weights("", "orthogonal")
    ('leak, orthogonal', 'orthogonal')
    """
    return f"{remedy}, {weights}" if remedy else weights


def has_remedy(weights: str) -> bool:
    """Return whether these are the weights of runs with a remedy."""
    return ", " in weights


def ours(weights: str) -> bool:
    """Return whether these weights draw random walks, with or without a remedy."""
    return weights in walks() or has_remedy(weights)


def draw(runs: DataFrame) -> Picture:
    """Return the panels: the median loss against depth, with bars from the least to the greatest seed."""
    points = medians(runs)
    shown, schemes = panels(runs), initialisers(points)
    rows, columns = (1, len(shown)) if len(shown) < 4 else (2, math.ceil(len(shown) / 2))
    figure, axes = canvas(rows, columns, (4.4 * columns + 1.0, 3.9 * rows), sharey=True)
    lines = levels(points["loss"].to_numpy(), None, MOST)
    for place, panel in enumerate(axes.flat):
        if place >= len(shown):
            panel.set_axis_off()
            continue
        mark(panel, lines, named=place == len(shown) - 1 or place % columns == columns - 1)
        mark_constant(panel, CHANCE, "chance,\nln 10")
        _draw_points(panel, points[points["panel"] == shown[place]], schemes, lines)
        plain_ticks(panel, share=False)
        depth_axis(panel, unique(points["depth"]))
        panel.set_title(shown[place], fontsize=10)
    for panel in axes[:, 0]:
        panel.set_ylabel("training loss at the best of the rates:\nmedian, least and greatest of the seeds")
    _legend(figure, schemes)
    return figure


def panels(runs: DataFrame) -> list[str]:
    """Return the titles of the panels in their order."""
    return list(dict.fromkeys(runs["panel"]))


def initialisers(rows: DataFrame) -> list[str]:
    """Return the initialisers in the order of the legend, those that are not in the specs last."""
    order = list(COMPARED)
    return sorted(set(rows["weights"]), key=lambda name: (order.index(name) if name in order else len(order), name))


def shift(place: int, count: int) -> float:
    """Return the factor by which the points of an initialiser are moved beside their depth."""
    return float(2 ** (OCTAVES * (place - (count - 1) / 2)))


def reach(points: DataFrame, heights: Array) -> tuple[Array, Array]:
    """Return how far below and above its height the seeds of each point reach."""
    least, most = (np.where(points[name].isna(), heights, points[name]) for name in ("least", "most"))
    return np.maximum(heights - least, 0.0), np.maximum(np.minimum(most, MOST) - heights, 0.0)


def _median(losses: Sequence[float]) -> float:
    """Return the median of the losses, infinite if a diverged run is in the middle."""
    ascending = np.sort(np.nan_to_num(losses, nan=np.inf, posinf=np.inf))
    return float(ascending[[(len(ascending) - 1) // 2, len(ascending) // 2]].mean())


def _lowest(points: DataFrame, schemes: Collection[str]) -> tuple[str, float] | None:
    """Return the one of these initialisers with the lowest loss, and that loss; None if none of them was run."""
    rows = points[points["weights"].isin(list(schemes))].fillna({"loss": math.inf})
    if rows.empty:
        return None
    lowest = rows.sort_values(["loss", "weights"]).iloc[0]
    return str(lowest["weights"]), float(lowest["loss"])


def _draw_points(panel: Axes, points: DataFrame, schemes: Sequence[str], lines: Levels) -> None:
    for place, weights in reversed(list(enumerate(schemes))):  # the walks last, on top of the others
        same = points[points["weights"] == weights]
        if same.empty:
            continue
        x, heights = same["depth"].to_numpy() * shift(place, len(schemes)), lines.heights(same["loss"].to_numpy())
        panel.errorbar(x, heights, reach(same, heights), **_look(weights, place), elinewidth=1)


def _look(weights: str, place: int) -> dict[str, Any]:
    walk = ours(weights)
    style = {"linestyle": "-" if walk else "--", "linewidth": 1.8 if walk else 0.9, "zorder": 3 if walk else 2}
    if has_remedy(weights):
        return {"color": _REMEDIES[place % len(_REMEDIES)], "marker": "*h"[place % 2], "markersize": 8} | style
    index = COMPARED.index(weights) if weights in COMPARED else place
    markers = (*_MARKERS, *MARKERS)
    look = {"color": _COLOURS[index % len(_COLOURS)], "marker": markers[index % len(markers)], "markersize": 5}
    return look | style


def _legend(figure: Picture, schemes: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=title(weights), **_look(weights, place)) for place, weights in enumerate(schemes)]
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=9)

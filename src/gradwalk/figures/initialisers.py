"""Which initialiser at which depth: training loss after a fixed number of steps, for the random walk and its peers.

The paper lacks this figure. Every initialiser has the same learning rates to choose from, and at each depth the one
with the least median loss over the seeds counts. Who calls all ten classes equally likely has the loss ln 10.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradwalk.activations import Array
from gradwalk.figures import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, canvas
from gradwalk.figures.error_axis import Levels, depth_axis, levels, mark, mark_constant
from gradwalk.figures.outcomes import Line, finished, groups, overview, unique
from gradwalk.figures.table import Table
from gradwalk.figures.trained import by_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COMPARED = ("gaussian", "orthogonal", "torch", "xavier", "kaiming", "plain-orthogonal", "lsuv")  # in the specs
ACTIVATIONS = {"tanh": "tanh", "relu": "ReLU", "selu": "selu", "gelu": "gelu", "gelu*100": "steady gelu, f(100 a)/100"}

CHANCE = math.log(10)  # the loss of ten classes called equally likely
LEARNED = 0.9  # of it: a loss above this is not told from chance
CLEARLY = 0.98  # a loss below this times another is lower; between, they are tied
MOST = 10.0  # larger losses lie with the diverged runs

OCTAVES = 0.06  # between neighbouring initialisers, so that points of one depth can be told apart
_COLOURS = (RED, BLUE, GREY, BLACK, PURPLE, ORANGE, GREEN)
_MARKERS = "osvPXD^"

tabulate = by_run


def titles() -> dict[str, str]:
    """Return the titles of all initialisers by their names, those of the figure's specs first."""
    from gradwalk.nets import INITIALISERS

    return {record.name: record.title for record in INITIALISERS}


def walks() -> frozenset[str]:
    """Return the names of the initialisers that draw random walks, scaled by a gain."""
    from gradwalk.nets import INITIALISERS

    return frozenset(record.name for record in INITIALISERS if record.takes_gain)


class Contest(NamedTuple):
    """The best of the walks against the best of the peers at one depth: names and losses, infinite if all diverged."""

    depth: float
    walk: str
    loss: float
    peer: str
    peer_loss: float

    @property
    def outcome(self) -> str:
        """Who has the lower loss: "walk", "peer", "tied", or "none" where neither learned."""
        if min(self.loss, self.peer_loss) > LEARNED * CHANCE:
            return "none"
        if self.loss < CLEARLY * self.peer_loss:
            return "walk"
        return "peer" if self.peer_loss < CLEARLY * self.loss else "tied"


def medians(table: Table) -> Table:
    """Return a row for each activation, initialiser and depth, at the learning rate with the least median loss.

    loss: the median over the seeds, of which a diverged one counts as infinitely large; NaN where it is that. least
    and most: over the seeds that did not diverge. runs and diverged count the seeds.
    """
    rows = []
    for (name, weights, depth), members in groups(finished(table), "activation", "weights", "depth"):
        rate, same = min(groups(members, "rate_in"), key=lambda each: _median(each[1]))
        lost = np.isnan(same["train_loss"])
        ends = [f(same["train_loss"][~lost], initial=start) for f, start in ((np.min, np.inf), (np.max, -np.inf))]
        measured = [value if np.isfinite(value) else np.nan for value in (_median(same), *ends)]
        rows.append((name, weights, depth, *rate, *measured, len(lost), int(lost.sum())))
    names = ("activation", "weights", "depth", "rate", "loss", "least", "most", "runs", "diverged")
    return Table({name: np.array(cells) for name, cells in zip(names, zip(*rows, strict=True), strict=True)})


def contests(table: Table) -> dict[str, list[Contest]]:
    """Return for each activation the contest of each depth at which walks and peers were both run."""
    points = medians(table)
    found: dict[str, list[Contest]] = {}
    for (name, depth), same in groups(points, "activation", "depth"):
        best = [_best(same, which) for which in (walks(), frozenset(titles()) - walks())]
        if all(best):
            found.setdefault(name, []).append(Contest(depth, *best[0], *best[1]))  # type: ignore[misc]
    return {name: found[name] for name in sorted(found, key=_order)}


def lower_from(fought: list[Contest]) -> float | None:
    """Return the depth from which on the walk has the lower loss, at every depth that was run; None if there is none.

    >>> lower_from([Contest(4, "gaussian", 0.5, "lsuv", 0.4), Contest(64, "orthogonal", 0.6, "lsuv", 2.3)])
    64
    """
    start = None
    for each in reversed(fought):
        if each.outcome != "walk":
            break
        start = each.depth
    return start


def summary(table: Table) -> list[Line]:
    """Return the numbers that matter: at each depth, the best walk and the best peer."""
    lines = overview(table, "does not have this figure")
    for name, fought in contests(table).items():
        for each in fought:
            said = f"{told(each.walk, each.loss)}; {told(each.peer, each.peer_loss)}"
            lines.append((f"{ACTIVATIONS.get(name, name)}, D = {each.depth:.0f}", said))
    return lines


def told(weights: str, loss: float) -> str:
    """Return an initialiser and its loss in words.

    >>> told("lsuv", 0.25), told("torch", math.inf)
    ('LSUV 0.250', 'torch default diverged')
    """
    return f"{titles()[weights]} {loss:.3f}" if np.isfinite(loss) else f"{titles()[weights]} diverged"


def draw(table: Table) -> Figure:
    """Return a panel an activation: the median loss against the depth, bars from the least to the greatest seed."""
    points, shown = medians(table), activations(table)
    rows, columns = (1, len(shown)) if len(shown) < 4 else (2, math.ceil(len(shown) / 2))
    figure, panels = canvas(rows, columns, (4.4 * columns + 1.0, 3.9 * rows), sharey=True)
    lines = levels(points["loss"], None, MOST)
    for place, panel in enumerate(panels.flat):
        if place >= len(shown):
            panel.set_axis_off()
            continue
        mark(panel, lines, named=place == len(shown) - 1 or place % columns == columns - 1)
        mark_constant(panel, CHANCE, "chance,\nln 10")
        _loss_axis(panel)
        _draw_points(panel, points.where(activation=shown[place]), lines)
        depth_axis(panel, unique(points["depth"]))
        panel.set_title(ACTIVATIONS.get(shown[place], shown[place]), fontsize=10)
    for panel in panels[:, 0]:
        panel.set_ylabel("training loss, median over seeds\nat the best of the learning rates")
    _legend(figure, sorted(set(points["weights"].tolist()), key=list(titles()).index))
    return figure


def activations(table: Table) -> list[str]:
    """Return the activations of the table, in the order of the panels."""
    return sorted(set(table["activation"].tolist()), key=_order)


def shift(weights: str) -> float:
    """Return the factor by which the points of an initialiser stand beside their depth."""
    return float(2 ** (OCTAVES * (list(titles()).index(weights) - (len(COMPARED) - 1) / 2)))


def reach(points: Table, heights: Array) -> tuple[Array, Array]:
    """Return how far below and above its height each point's seeds reach."""
    least, most = (np.where(np.isnan(points[name]), heights, points[name]) for name in ("least", "most"))
    return np.maximum(heights - least, 0.0), np.maximum(np.minimum(most, MOST) - heights, 0.0)


def _loss_axis(panel: Axes) -> None:
    """Name 1, 2 and 5 of each decade: losses span little more than one."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

    panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.yaxis.set_major_formatter(FormatStrFormatter("%g"))
    panel.yaxis.set_minor_formatter(NullFormatter())


def _draw_points(panel: Axes, points: Table, lines: Levels) -> None:
    for weights in reversed(titles()):  # the walks last, above the others
        same = points.where(weights=weights)
        if not len(same["depth"]):
            continue
        heights = lines.heights(same["loss"])
        bars = reach(same, heights)
        panel.errorbar(same["depth"] * shift(weights), heights, bars, **_look(weights), markersize=5, elinewidth=1)


def _look(weights: str) -> dict[str, Any]:
    ours, place = weights in walks(), list(titles()).index(weights)
    style = {"linestyle": "-" if ours else "--", "linewidth": 1.8 if ours else 0.9, "zorder": 3 if ours else 2}
    look = {"color": _COLOURS[place % len(_COLOURS)], "marker": _MARKERS[place % len(_MARKERS)]}
    return look | style


def _legend(figure: Figure, shown: list[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=titles()[weights], **_look(weights)) for weights in shown]
    figure.legend(handles=handles, loc="outside right center", frameon=False, fontsize=9)


def _median(rows: Table) -> float:
    """The median of the losses, infinite where a diverged run is in the middle."""
    losses = np.sort(np.nan_to_num(rows["train_loss"], nan=np.inf, posinf=np.inf))
    middle = losses[[(len(losses) - 1) // 2, len(losses) // 2]]
    return float(middle.mean())


def _best(points: Table, which: frozenset[str]) -> tuple[str, float] | None:
    found = [(float(np.nan_to_num(row, nan=np.inf)), str(name)) for name, row in _pairs(points) if name in which]
    return min(found)[::-1] if found else None


def _pairs(points: Table) -> list[tuple[str, float]]:
    return list(zip(points["weights"].tolist(), points["loss"].tolist(), strict=True))


def _order(name: str) -> tuple[int, str]:
    known = list(ACTIVATIONS)
    return known.index(name) if name in known else len(known), name

"""Figure 2: the best gain against width, and the mean final log-norm against the gain, for linear, ReLU and tanh.

Every point is simulated; the printed formulas and the exact gains are drawn for comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.activations import Array
from gradwalk.figures.drawing import BLACK, BLUE, GREEN, GREY, RED, canvas, zero_line
from gradwalk.figures.figure import SimulatedFigure
from gradwalk.figures.outcomes import Line
from gradwalk.figures.table import Table
from gradwalk.gains import gain, solve_gain
from gradwalk.progress import progress
from gradwalk.simulation import simulate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

    from gradwalk.figures.interactive.frame import Panel

TITLES = {"linear": "linear", "relu": "ReLU", "tanh": "tanh"}
NARROW = (4, 6, 8)  # below 10 units no g makes the walk of tanh unbiased over 200 layers
WIDTHS = (10, 13, 18, 24, 33, 45, 60, 80, 110, 150, 200, 270, 370, 500)
RANGES = {"linear": (0.98, 1.03), "relu": (1.39, 1.475), "tanh": (1.0, 1.3)}
EQUATIONS = {"linear": "eq. 13", "relu": "eq. 18"}  # the paper prints none for tanh
PAPERS_TANH = (1.1, 1.3)  # what the paper reads off its own figure
GUIDE = 1.0  # the mean log-norm at the dashed guide lines

Row = tuple[Any, ...]
_NAMES = ("panel", "activation", "width", "gain", "gain_error", "mean", "mean_error", "printed", "ours")


def compute(
    seed: int = 0,
    *,
    widths: Sequence[int] = WIDTHS,
    narrow: Sequence[int] = NARROW,
    points: int = 25,
    width: int = 100,
    depth: int = 200,
    walks: tuple[int, int] = (200, 400),
) -> Table:
    """Return both rows of panels: panel="best" has one gain per width, panel="mean" one mean log-norm per gain.

    narrow: further widths, for the activations with a printed formula. walks: the number of networks per point in the
    upper and in the lower row. printed is the paper's formula; ours the exact gain, or for tanh in the lower row the
    solved one. Each is NaN where there is none.
    """
    rng = np.random.default_rng(seed)  # shared, so that no two points have the same random numbers
    rows: list[Row] = []
    with progress("Figure 2", len(TITLES) * (len(widths) + points) + len(EQUATIONS) * len(narrow)) as job:
        for name in TITLES:
            best = _best(name, (*narrow, *widths) if name in EQUATIONS else widths, depth, walks[0], rng)
            mean = _mean(name, np.linspace(*RANGES[name], points), width, depth, walks[1], rng)
            for row in (*_counted(best, job.advance), *_counted(mean, job.advance)):
                rows.append(row)
    facts = {"width": width, "depth": depth, "walks_best": walks[0], "walks_mean": walks[1], "seed": seed}
    return Table.of([dict(zip(_NAMES, row, strict=True)) for row in rows], facts)


def usable_gains(table: Table, name: str) -> tuple[float, float]:
    """Return the gains at which the mean log-norm crosses the guide lines, by linear interpolation; NaN outside."""
    rows = table.where(panel="mean", activation=name)
    rising = np.maximum.accumulate(rows["mean"])  # noise may exceed the difference between neighbours
    low, high = np.interp([-GUIDE, GUIDE], rising, rows["gain"], left=np.nan, right=np.nan)
    return float(low), float(high)


def draw(table: Table) -> Picture:
    """Return 2 x 3 panels: best gain against width above, mean log-norm against gain below."""
    figure, panels = canvas(2, 3, (10.5, 6.6))
    for (name, title), (upper, lower) in zip(TITLES.items(), panels.T, strict=True):
        _draw_best(upper, table.where(panel="best", activation=name), name)
        _draw_mean(lower, table.where(panel="mean", activation=name), name)
        upper.set_title(title)
    panels[0, 0].set_ylabel("best g")
    panels[1, 0].set_ylabel(r"mean $\ln\,(|\delta_0|/|\delta_D|)$")
    return figure


def summary(table: Table) -> list[Line]:
    """Return how far simulated and printed gains are apart, tanh's range, and how wide the usable ranges are."""
    return [*_distances(table), *_tanh_range(table), *_usable_ranges(table)]


def extent(table: Table) -> str:
    """Return what was simulated."""
    facts, widths = table.facts, len(table.where(panel="best", activation="linear").frame)
    return (
        f"{widths} widths with {facts['walks_best']:.0f} networks per point above, N = {facts['width']:.0f} with "
        f"{facts['walks_mean']:.0f} networks per point below, D = {facts['depth']:.0f}"
    )


def panels(table: Table) -> list[Panel]:
    """Return the upper row of panels for the page, then the lower one."""
    from gradwalk.figures.interactive import gains

    return gains.panels(table)


FIGURE = SimulatedFigure(
    name="fig2",
    title="Figure 2",
    caption="Above, the g at which the walk has no drift, against the width. Below, the mean log-norm against g: "
    "between the dashed lines the gradient at the first layer is within a factor e of that at the last.",
    in_paper=True,
    compute=compute,
    draw=draw,
    summary=summary,
    extent=extent,
    panels=panels,
)


def _best(name: str, widths: Sequence[int], depth: int, walks: int, rng: np.random.Generator) -> Iterator[Row]:
    for n in widths:
        best = solve_gain(name, n, depth, walks=walks, seed=int(rng.integers(2**32)), sampled=True)
        ours = gain(name, n) if name in EQUATIONS else np.nan
        yield "best", name, float(n), best.value, best.standard_error, np.nan, np.nan, _printed(name, n), ours


def _mean(name: str, gains: Array, width: int, depth: int, walks: int, rng: np.random.Generator) -> Iterator[Row]:
    ours = solve_gain(name, width, depth).value
    for g in map(float, gains):
        walked = simulate(name, width, depth, gain=g, walks=walks, rng=rng, every=depth)
        yield "mean", name, float(width), g, np.nan, walked.mean, walked.standard_error, _printed(name, width), ours


def _printed(name: str, width: int) -> float:
    return gain(name, width, formula="paper") if name in EQUATIONS else np.nan


def _counted(rows: Iterator[Row], advance: Callable[[int], None]) -> Iterator[Row]:
    for row in rows:
        advance(1)
        yield row


def _draw_best(panel: Axes, rows: Table, name: str) -> None:
    points: dict[str, Any] = {"color": BLACK, "fmt": "o", "markersize": 4, "capsize": 2, "zorder": 3}
    panel.errorbar(rows["width"], rows["gain"], 2 * rows["gain_error"], label="simulated, ± 2 s.e.", **points)
    if name in EQUATIONS:
        panel.plot(rows["width"], rows["printed"], color=RED, label=f"printed, {EQUATIONS[name]}")
        panel.plot(rows["width"], rows["ours"], color=BLUE, linestyle="--", label="exact")
    else:
        panel.axhspan(*PAPERS_TANH, color=GREY, alpha=0.25, linewidth=0, label="the paper: 1.1 to 1.3")
    panel.set_xscale("log")
    panel.set_xticks([10, 30, 100, 300], labels=["10", "30", "100", "300"])
    panel.minorticks_off()
    panel.set_xlabel(f"width N  (D = {rows.facts['depth']:.0f})")
    panel.legend(fontsize=8, frameon=False)


def _draw_mean(panel: Axes, rows: Table, name: str) -> None:
    zero_line(panel, GREEN)
    for level, label in ((-GUIDE, "÷ e"), (GUIDE, "× e")):
        panel.axhline(level, color=GREEN, linestyle="--", linewidth=1)
        place: dict[str, Any] = {"xycoords": panel.get_yaxis_transform(), "textcoords": "offset points"}
        panel.annotate(label, (0, level), (3, 2), fontsize=8, color=GREEN, **place)
    points: dict[str, Any] = {"color": BLACK, "fmt": "o-", "markersize": 3, "linewidth": 0.8}
    panel.errorbar(rows["gain"], rows["mean"], 2 * rows["mean_error"], **points)
    if name in EQUATIONS:
        _arrow(panel, float(rows["printed"][0]), EQUATIONS[name])
    else:
        _arrow(panel, float(rows["ours"][0]), "ours (solved)")
    panel.set_xlabel(f"g  (N = {rows.facts['width']:.0f}, D = {rows.facts['depth']:.0f})")


def _arrow(panel: Axes, g: float, label: str) -> None:
    """Draw an arrow up to the zero line at g, with the gain written at its foot."""
    look = {"arrowstyle": "-|>", "color": RED, "linewidth": 1.8, "shrinkB": 0}
    foot = (g, -0.62 * panel.get_ylim()[1])
    panel.annotate(
        f"{label}\ng = {g:.4f}", (g, 0.0), foot, arrowprops=look, color=RED, ha="center", va="top", fontsize=8
    )


def _distances(table: Table) -> list[Line]:
    lines = []
    for name, equation in EQUATIONS.items():
        rows = table.where(panel="best", activation=name)
        for label, reference in ((equation, rows["printed"]), ("exact", rows["ours"])):
            distance = np.abs(rows["gain"] - reference)
            errors = distance / rows["gain_error"]
            words = f"{_largest(distance, rows, '.4f')}; in s.e. {_largest(errors, rows, '.1f')}"
            lines.append((f"{TITLES[name]}: best g, farthest from {label}", words))
    return lines


def _largest(values: Array, rows: Table, digits: str) -> str:
    place = int(np.argmax(values))
    return f"{values[place]:{digits}} at N = {rows['width'][place]:.0f}"


def _tanh_range(table: Table) -> list[Line]:
    rows = table.where(panel="best", activation="tanh")
    low, high = PAPERS_TANH
    inside = rows["width"][(rows["gain"] >= low) & (rows["gain"] <= high)]
    between = f"{inside.min():.0f} to {inside.max():.0f}" if len(inside) else "none"
    widths = f"N = {rows['width'][0]:.0f} to {rows['width'][-1]:.0f}"
    return [
        (f"tanh: best g, {widths}", f"{rows['gain'][0]:.3f} down to {rows['gain'][-1]:.3f}"),
        ("tanh: N with best g in 1.1 to 1.3", between),
    ]


def _usable_ranges(table: Table) -> list[Line]:
    ranges = {name: usable_gains(table, name) for name in TITLES}
    return [
        (f"{TITLES[name]}: g with |mean| < {GUIDE:g}", f"{low:.4f} to {high:.4f} ({100 * (high / low - 1):.1f} % wide)")
        for name, (low, high) in ranges.items()
    ]

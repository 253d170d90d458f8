"""Figure 2: the best gain against width, and the mean final log-norm against the gain, for linear, ReLU and tanh.

Every point comes from simulation alone; the printed formulas and our exact gains are drawn against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.activations import Array
from gradwalk.figures import BLACK, BLUE, GREEN, GREY, RED, canvas, zero_line
from gradwalk.figures.table import Table
from gradwalk.gains import gain, solve_gain
from gradwalk.progress import progress
from gradwalk.simulation import simulate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {"linear": "linear", "relu": "ReLU", "tanh": "tanh"}
WIDTHS = (10, 13, 18, 24, 33, 45, 60, 80, 110, 150, 200, 270, 370, 500)
RANGES = {"linear": (0.98, 1.03), "relu": (1.39, 1.475), "tanh": (1.0, 1.3)}
EQUATIONS = {"linear": "eq. 13", "relu": "eq. 18"}  # the paper prints none for tanh
PAPERS_TANH = (1.1, 1.3)  # what the paper reads off its own figure
SERVICEABLE = 1.0  # a mean log-norm within the dashed guide lines

Row = tuple[Any, ...]
_NAMES = ("panel", "activation", "width", "gain", "gain_error", "mean", "mean_error", "printed", "ours")


def compute(
    seed: int = 0,
    *,
    widths: Sequence[int] = WIDTHS,
    points: int = 25,
    width: int = 100,
    depth: int = 200,
    walks: tuple[int, int] = (200, 400),
) -> Table:
    """Return both rows of panels: panel="best" has a gain for each width, panel="mean" a mean log-norm for each gain.

    `walks` is how many networks a point has in the one and in the other. printed is the paper's formula, ours the
    exact gain, or for tanh in the lower panel the solved one; each is NaN where there is none.
    """
    rng = np.random.default_rng(seed)  # every point gets random numbers of its own
    rows: list[Row] = []
    with progress("Figure 2", len(TITLES) * (len(widths) + points)) as job:
        for name in TITLES:
            best = _best(name, widths, depth, walks[0], rng)
            mean = _mean(name, np.linspace(*RANGES[name], points), width, depth, walks[1], rng)
            for row in (*_counted(best, job.advance), *_counted(mean, job.advance)):
                rows.append(row)
    columns = {label: np.array(cells) for label, cells in zip(_NAMES, zip(*rows, strict=True), strict=True)}
    return Table(
        columns, {"width": width, "depth": depth, "walks_best": walks[0], "walks_mean": walks[1], "seed": seed}
    )


def draw(table: Table) -> Figure:
    """Return the 2 x 3 panels: best gain against width above, mean log-norm against gain below."""
    figure, panels = canvas(2, 3, (10.5, 6.6))
    for (name, title), (upper, lower) in zip(TITLES.items(), panels.T, strict=True):
        _draw_best(upper, table.where(panel="best", activation=name), name)
        _draw_mean(lower, table.where(panel="mean", activation=name), name)
        upper.set_title(title)
    panels[0, 0].set_ylabel("best g")
    panels[1, 0].set_ylabel(r"mean $\ln\,(|\delta_0|/|\delta_D|)$")
    return figure


def summary(table: Table) -> list[tuple[str, str]]:
    """Return the numbers that matter: simulated against printed gains, tanh's range, and how wide each may err."""
    return [*_distances(table), *_tanh_range(table), *_serviceable_ranges(table)]


def serviceable(table: Table, name: str) -> tuple[float, float]:
    """Return the gains at which the mean log-norm crosses -1 and 1, by straight lines between the points."""
    rows = table.where(panel="mean", activation=name)
    rising = np.maximum.accumulate(rows["mean"])  # the noise of neighbours may exceed what they differ by
    low, high = np.interp([-SERVICEABLE, SERVICEABLE], rising, rows["gain"], left=np.nan, right=np.nan)
    return float(low), float(high)


def _best(name: str, widths: Sequence[int], depth: int, walks: int, rng: np.random.Generator) -> Iterator[Row]:
    for n in widths:
        found = solve_gain(name, n, depth, walks=walks, seed=int(rng.integers(2**32)), sampled=True)
        ours = gain(name, n) if name in EQUATIONS else np.nan
        yield "best", name, float(n), found.value, found.standard_error, np.nan, np.nan, _printed(name, n), ours


def _mean(name: str, gains: Array, width: int, depth: int, walks: int, rng: np.random.Generator) -> Iterator[Row]:
    ours = solve_gain(name, width, depth).value
    for g in map(float, gains):
        found = simulate(name, width, depth, gain=g, walks=walks, rng=rng, every=depth)
        yield "mean", name, float(width), g, np.nan, found.mean, found.standard_error, _printed(name, width), ours


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
    for level in (-SERVICEABLE, SERVICEABLE):
        panel.axhline(level, color=GREEN, linestyle="--", linewidth=1)
    points: dict[str, Any] = {"color": BLACK, "fmt": "o-", "markersize": 3, "linewidth": 0.8}
    panel.errorbar(rows["gain"], rows["mean"], 2 * rows["mean_error"], **points)
    if name in EQUATIONS:
        _arrow(panel, float(rows["printed"][0]), EQUATIONS[name])
    else:
        _arrow(panel, float(rows["ours"][0]), "ours (solved)")
    panel.set_xlabel(f"g  (N = {rows.facts['width']:.0f}, D = {rows.facts['depth']:.0f})")


def _arrow(panel: Axes, g: float, label: str) -> None:
    """Draw an arrow that comes up to the zero line at g, with the gain at its foot."""
    look = {"arrowstyle": "-|>", "color": RED, "linewidth": 1.8, "shrinkB": 0}
    foot = (g, -0.62 * panel.get_ylim()[1])
    panel.annotate(
        f"{label}\ng = {g:.4f}", (g, 0.0), foot, arrowprops=look, color=RED, ha="center", va="top", fontsize=8
    )


def _distances(table: Table) -> list[tuple[str, str]]:
    lines = []
    for name, equation in EQUATIONS.items():
        rows = table.where(panel="best", activation=name)
        for label, reference in ((equation, rows["printed"]), ("exact", rows["ours"])):
            off = rows["gain"] - reference
            sigmas = np.abs(off / rows["gain_error"])
            lines.append(
                (
                    f"{TITLES[name]}: best g, farthest from {label}",
                    f"{_at(np.abs(off), rows, '.4f')}; in s.e. {_at(sigmas, rows, '.1f')}",
                )
            )
    return lines


def _at(size: Array, rows: Table, digits: str) -> str:
    worst = int(np.argmax(size))
    return f"{size[worst]:{digits}} at N = {rows['width'][worst]:.0f}"


def _tanh_range(table: Table) -> list[tuple[str, str]]:
    rows = table.where(panel="best", activation="tanh")
    low, high = PAPERS_TANH
    inside = rows["width"][(rows["gain"] >= low) & (rows["gain"] <= high)]
    between = f"{inside.min():.0f} to {inside.max():.0f}" if len(inside) else "none"
    widths = f"N = {rows['width'][0]:.0f} to {rows['width'][-1]:.0f}"
    return [
        (f"tanh: best g, {widths}", f"{rows['gain'][0]:.3f} down to {rows['gain'][-1]:.3f}"),
        ("tanh: N with best g in 1.1 to 1.3", between),
    ]


def _serviceable_ranges(table: Table) -> list[tuple[str, str]]:
    ranges = {name: serviceable(table, name) for name in TITLES}
    return [
        (f"{TITLES[name]}: serviceable g, |mean| < 1", f"{low:.4f} to {high:.4f} ({100 * (high / low - 1):.1f} % wide)")
        for name, (low, high) in ranges.items()
    ]

"""Figure 1: walks of a linear network, their mean, and their variance against the prediction (N = 100, D = 500)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from gradwalk.figures.drawing import BLUE, GREY, RED, canvas, plot_walks, zero_line
from gradwalk.figures.figure import SimulatedFigure
from gradwalk.figures.outcomes import Line
from gradwalk.figures.table import Table
from gradwalk.gains import gain
from gradwalk.simulation import simulate
from gradwalk.theory import step

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

    from gradwalk.activations import Array
    from gradwalk.figures.interactive.frame import Panel

OTHER_WIDTHS = (25, 50, 200, 400)  # where the variance is measured as well, to test that it scales as 1/N


def compute(seed: int = 0, *, width: int = 100, depth: int = 500, walks: int = 4000, shown: int = 60) -> Table:
    """Return mean, standard error and variance over the walks at each layer, and `shown` of the walks themselves.

    printed is d / (2 N), eq. 14, which is the variance of the log-norm (that of ln z is four times as large); exact is
    d times trigamma(N / 2) / 4. The facts variance_25, ... are variances per layer at other widths.
    """
    g = gain("linear", width, formula="paper")  # eq. 13
    log_norm = simulate("linear", width, depth, gain=g, walks=walks, rng=seed).log_norm
    travelled = np.arange(depth + 1.0)
    variance = log_norm.var(axis=0, ddof=1)
    columns = {
        "travelled": travelled,
        "mean": log_norm.mean(axis=0),
        "standard_error": np.sqrt(variance / walks),
        "variance": variance,
        "printed": travelled * step("linear", width, formula="paper").variance,
        "exact": travelled * step("linear", width).variance / 4,
    }
    samples = {f"walk_{index + 1}": walk for index, walk in enumerate(log_norm[:shown])}
    facts = {"width": width, "depth": depth, "walks": walks, "gain": g, "seed": seed}
    others = {f"variance_{other}": _variance(other, depth, walks, seed) for other in OTHER_WIDTHS}
    return Table.of(columns | samples, facts | others)


def slope(table: Table) -> float:
    """Return the variance per layer, averaged over all layers."""
    return float(table["variance"][-1] / table.facts["depth"])


def slope_error(table: Table) -> float:
    """Return the standard error of `slope`; for a normal variance it is sqrt(2 / (walks - 1)) times the slope."""
    return slope(table) * math.sqrt(2 / (table.facts["walks"] - 1))


def other_variances(table: Table) -> dict[int, float]:
    """Return the variance per layer at the other widths, empty if a table lacks them."""
    start = "variance_"
    return {int(name.removeprefix(start)): value for name, value in table.facts.items() if name.startswith(start)}


def sample_walks(table: Table) -> Array:
    """Return the walks that the table keeps, one per row."""
    return np.array([table[name] for name in table.frame.columns if name.startswith("walk_")])


def draw(table: Table) -> Picture:
    """Return three panels: sample walks, their mean, their variance."""
    figure, panels = canvas(3, 1, (6.4, 8.0), sharex=True)
    samples, mean, variance = panels[:, 0]
    _draw_samples(samples, table)
    _draw_mean(mean, table)
    _draw_variance(variance, table)
    figure.align_ylabels()
    return figure


def summary(table: Table) -> list[Line]:
    """Return whether the mean stays at 0 and the variance grows as predicted."""
    facts, measured = table.facts, slope(table)
    mean, error = table["mean"][-1], table["standard_error"][-1]
    width, depth = int(facts["width"]), int(facts["depth"])
    return [
        (f"gain, eq. 13, N = {width}", f"{facts['gain']:.6f}"),
        (f"mean log-norm after {depth} layers", f"{mean:+.3f} ± {error:.3f} (predicted 0)"),
        ("variance per layer, measured", f"{measured:.6f} ± {slope_error(table):.6f}"),
        ("variance per layer, 1/(2N), eq. 14", f"{1 / (2 * width):.6f} (measured is {measured * 2 * width:.3f} of it)"),
        ("variance per layer, exact", f"{table['exact'][-1] / depth:.6f}"),
    ]


def extent(table: Table) -> str:
    """Return what was simulated."""
    facts = table.facts
    return f"{facts['walks']:,.0f} walks of a linear network, N = {facts['width']:.0f}, D = {facts['depth']:.0f}"


def panels(table: Table) -> list[Panel]:
    """Return the three panels for the page."""
    from gradwalk.figures.interactive import walks

    return walks.panels(table)


FIGURE = SimulatedFigure(
    name="fig1",
    title="Figure 1",
    caption="Walks of the gradient’s log-norm in a linear network at the predicted g, their mean and their variance.",
    in_paper=True,
    compute=compute,
    draw=draw,
    summary=summary,
    extent=extent,
    panels=panels,
)


def _variance(width: int, depth: int, walks: int, seed: int) -> float:
    """Return the variance per layer at another width, from at most 2000 walks of at most 100 layers."""
    layers = min(depth, 100)
    g, rng = gain("linear", width, formula="paper"), np.random.default_rng([seed, width])
    sampled = simulate("linear", width, layers, gain=g, walks=min(walks, 2000), rng=rng, every=layers)
    return float(sampled.log_norm[:, -1].var(ddof=1) / layers)


def _draw_samples(panel: Axes, table: Table) -> None:
    facts, walks = table.facts, sample_walks(table)
    plot_walks(panel, table["travelled"], walks)
    panel.set_title(
        f"Linear network, N = {facts['width']:.0f}, D = {facts['depth']:.0f}, g = {facts['gain']:.6f}: "
        f"{len(walks)} of {facts['walks']:.0f} walks",
        fontsize=10,
    )


def _draw_mean(panel: Axes, table: Table) -> None:
    x, mean, error = table["travelled"], table["mean"], table["standard_error"]
    panel.fill_between(x, mean - 2 * error, mean + 2 * error, color=BLUE, alpha=0.2, linewidth=0, label="± 2 s.e.")
    panel.plot(x, mean, color=BLUE, label=f"mean of {table.facts['walks']:.0f} walks")
    zero_line(panel, RED, "predicted: 0")
    reach = 1.6 * float(np.abs(np.concatenate([mean - 2 * error, mean + 2 * error])).max())
    panel.set_ylim(-reach, reach)
    panel.set_ylabel("mean")
    panel.legend(loc="upper left", ncols=3, fontsize=8, frameon=False)


def _draw_variance(panel: Axes, table: Table) -> None:
    x = table["travelled"]
    error = table["variance"] * math.sqrt(2 / (table.facts["walks"] - 1))
    low, high = table["variance"] - 2 * error, table["variance"] + 2 * error
    panel.fill_between(x, low, high, color=BLUE, alpha=0.2, linewidth=0, label="± 2 s.e.")
    panel.plot(x, table["variance"], color=BLUE, label="variance over the walks")
    panel.plot(x, table["printed"], color=RED, linestyle="--", label="d / (2N), eq. 14")
    panel.plot(x, table["exact"], color=GREY, linestyle=":", linewidth=2, label="exact: d trigamma(N/2) / 4")
    panel.set_ylabel("variance")
    panel.set_xlabel("layers travelled back, d")
    panel.set_ylim(bottom=0)
    panel.legend(loc="upper left", fontsize=8, frameon=False)

"""How many directions pass, against depth over width: theory, sampler and literal networks; not in the paper.

One panel per activation, with Gaussian and orthogonal weights at the unbiased gain. The sampler draws no matrix; the
literal networks are drawn with their matrices, and the singular values of their Jacobians are computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk import activations
from gradwalk.checks import WEIGHTS, Weights
from gradwalk.figures.drawing import BLUE, RED, canvas
from gradwalk.figures.figure import SimulatedFigure
from gradwalk.figures.outcomes import Line, unique
from gradwalk.figures.table import Table
from gradwalk.gains import directions
from gradwalk.progress import progress
from gradwalk.simulation import jacobian_singular_values, participation_ratio, simulate
from gradwalk.theory import wide_directions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

    from gradwalk.figures.interactive.frame import Panel

TITLES = {
    "linear": "linear",
    "tanh": "tanh",
    "relu": "ReLU",
    "gelu": "gelu",
    "leaky_relu(0.9)": "leaky ReLU, slope 0.9",
}
RATIOS = (1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8)  # depth over width
SAMPLED, LITERAL = 48, 12  # networks per point
COLOURS: dict[str, str] = {"gaussian": RED, "orthogonal": BLUE}

Row = dict[str, Any]


def compute(
    seed: int = 0,
    *,
    names: Sequence[str] = tuple(TITLES),
    width: int = 32,
    ratios: Sequence[float] = RATIOS,
    networks: tuple[int, int] = (SAMPLED, LITERAL),
) -> Table:
    """Return one row per activation, weights and depth.

    networks: how many are sampled, and how many are drawn literally. theory is that of networks much wider than deep,
    N / (1 + D (v + w)), at the variance of the signal in the middle of the sampled networks. sampled and literal are
    means over networks, with their standard errors. All are NaN where the signal of an unsteady activation leaves all
    bounds, so that there is no unbiased gain.
    """
    depths = [max(1, round(width * ratio)) for ratio in ratios]
    rows = []
    with progress("Directions", len(names) * len(WEIGHTS) * len(depths)) as job:
        for row in _rows(names, width, depths, networks, seed):
            rows.append(row)
            job.advance(1)
    sizes = dict(zip(("networks_sampled", "networks_literal"), networks, strict=True))
    return Table.of(rows, {"width": width, "seed": seed} | sizes)


def summary(table: Table) -> list[Line]:
    """Return how far the sampler is from literal networks, and how many directions pass at equal depth and width."""
    frame = table.frame.dropna(subset=["sampled", "literal"])
    errors = np.hypot(frame["sampled_error"], frame["literal_error"])
    exact = errors < 1e-4  # linear and orthogonal: all pass, in every network
    apart = np.abs(frame["sampled"] - frame["literal"])[~exact] / errors[~exact]
    lines = [("sampler and literal networks, farthest apart", f"{apart.max():.1f} standard errors of {len(apart)}")]
    for name in unique(frame["activation"]):
        same = frame[(frame["activation"] == name) & (frame["depth"] == table.facts["width"])]
        words = ", ".join(f"{row['sampled']:.1f} {row['weights']}" for _, row in same.iterrows())
        lines.append((f"{TITLES.get(name, name)}: directions at D = N", words))
    return lines


def extent(table: Table) -> str:
    """Return what was simulated."""
    facts = table.facts
    return (
        f"N = {facts['width']:.0f}, D = {table['depth'].min()} to {table['depth'].max()}; per point "
        f"{facts['networks_sampled']:.0f} networks sampled and {facts['networks_literal']:.0f} literal ones"
    )


def draw(table: Table) -> Picture:
    """Return one panel per activation."""
    names = list(dict.fromkeys(table["activation"]))
    figure, panels = canvas(1, len(names), (2.9 * len(names) + 0.6, 3.6), sharey=True)
    for name, panel in zip(names, panels.flat, strict=True):
        for weights in WEIGHTS:
            _draw_lines(panel, table.where(activation=name, weights=weights), weights)
        panel.set(xscale="log", yscale="log", xlabel="depth over width, D / N", ylim=(0.9, 1.2 * table.facts["width"]))
        panel.set_title(TITLES.get(name, name), fontsize=10)
        panel.set_xticks([1 / 8, 1, 8], labels=["1/8", "1", "8"])
        panel.set_yticks(ticks := _ticks(table.facts["width"]), labels=[f"{tick:g}" for tick in ticks])
        panel.minorticks_off()
    panels[0, 0].set_ylabel(f"directions that pass, of N = {table.facts['width']:.0f}")
    handles = panels[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def panels(table: Table) -> list[Panel]:
    """Return one panel per activation for the page."""
    from gradwalk.figures.interactive import directions_by_depth

    return directions_by_depth.panels(table)


FIGURE = SimulatedFigure(
    name="directions",
    title="Directions",
    caption="Not in the paper: how many directions of the gradient pass a network at the unbiased gain, the "
    "participation ratio of the squared singular values of its Jacobian, against depth over width. Lines: the sampler; "
    "points: networks drawn with their matrices; dotted: theory for networks much wider than deep.",
    compute=compute,
    draw=draw,
    summary=summary,
    extent=extent,
    panels=panels,
)


def _rows(
    names: Sequence[str], width: int, depths: Sequence[int], networks: tuple[int, int], seed: int
) -> Iterator[Row]:
    for name in names:
        for weights in WEIGHTS:
            for depth in depths:
                yield {"activation": name, "weights": weights, "width": width, "depth": depth} | _numbers(
                    name, width, depth, weights, networks, seed
                )


def _numbers(name: str, width: int, depth: int, weights: Weights, networks: tuple[int, int], seed: int) -> Row:
    try:
        found = directions(name, width, depth, weights=weights, networks=networks[0], seed=seed)
        assert isinstance(found.gain, float)
        logs = jacobian_singular_values(
            name, width, depth, gain=found.gain, networks=networks[1], rng=seed, weights=weights
        )
        literal = participation_ratio(logs)
        variance = _variance(name, width, depth, weights, found.gain, seed)
    except ValueError:  # there is no unbiased gain
        return dict.fromkeys(("gain", "theory", "sampled", "sampled_error", "literal", "literal_error"), math.nan)
    return {
        "gain": found.gain,
        "theory": wide_directions(name, width, depth, weights=weights, q=variance),
        "sampled": found.backward,
        "sampled_error": found.standard_error,
        "literal": float(literal.mean()),
        "literal_error": float(literal.std(ddof=1)) / math.sqrt(len(literal)),
    }


def _variance(name: str, width: int, depth: int, weights: Weights, gain: float, seed: int) -> float:
    """Return the typical variance of the signal in the middle of the network, within what quadrature can take."""
    f, every = activations.activation(name), max(1, depth // 2)
    walks = simulate(f, width, depth, gain=gain, walks=64, rng=seed, weights=weights, every=every)
    return float(np.clip(np.exp(np.median(walks.log_variance[:, 1])), 1e-12, 1e8))


def _draw_lines(panel: Axes, rows: Table, weights: str) -> None:
    ratio, colour = rows["depth"] / rows["width"], COLOURS[weights]
    panel.plot(ratio, rows["theory"], color=colour, linestyle=":", linewidth=1.2, label=f"{weights}: wide networks")
    panel.fill_between(
        ratio,
        rows["sampled"] - 2 * rows["sampled_error"],
        rows["sampled"] + 2 * rows["sampled_error"],
        color=colour,
        alpha=0.25,
        linewidth=0,
    )
    panel.plot(ratio, rows["sampled"], color=colour, linewidth=1.6, label=f"{weights}: sampler, ± 2 s.e.")
    points: dict[str, Any] = {"color": colour, "linestyle": "none", "markersize": 4, "capsize": 2}
    marker = "o" if weights == "gaussian" else "s"
    label = f"{weights}: literal networks, ± 2 s.e."
    panel.errorbar(ratio, rows["literal"], 2 * rows["literal_error"], marker=marker, label=label, **points)


def _ticks(width: float) -> list[float]:
    """Return the powers of two up to the width."""
    return [float(2**power) for power in range(int(math.log2(width)) + 1)]

"""C1 to C5, which Figures 1 and 2 bear on: each function says by what numbers its claim holds, in part, or not."""

from __future__ import annotations

import numpy as np

from gradwalk.activations import Array
from gradwalk.figures import fig1, fig2
from gradwalk.figures.fig2 import EQUATIONS, PAPERS_TANH, SERVICEABLE, TITLES
from gradwalk.figures.outcomes import Mask
from gradwalk.figures.table import Table
from gradwalk.report.finding import FAILS, HOLDS, IN_PART, NOT_RUN, Finding, Tables, graded, not_run

CLOSE = 4.0  # standard errors that the farthest of many numbers may lie off
NEAR = 3.0  # standard errors that a single number may lie off
SMALL = 0.1  # of the spread: a mean this small is of no consequence
EXPONENT = 0.1  # that the power of N may differ from -1
ENOUGH_WIDTHS = 5

_FIGURE_1 = {"width": 100.0, "depth": 500.0}  # the paper's own sizes
_FIGURE_2 = {"width": 100.0, "depth": 200.0}


def mean_stays_at_zero(tables: Tables) -> Finding:
    """C1. Holds: the mean over the walks lies within 4 standard errors of 0 at every layer.

    In part: it does not, but stays below a tenth of the walks' spread. Not run: other sizes than N = 100, D = 500.
    """
    table = tables.get("fig1")
    if table is None:
        return not_run("fig1")
    mean, error = table["mean"][1:], table["standard_error"][1:]
    off, small = float(np.abs(mean / error).max()), np.abs(mean) < SMALL * np.sqrt(table["variance"][1:])
    said = (
        f"{mean[-1]:+.3f} ± {error[-1]:.3f} after {len(mean)} layers, {table.facts['walks']:,.0f} walks; on the way at "
        f"most {off:.1f} standard errors from 0."
    )
    if _other_size(table, _FIGURE_1):
        return Finding(NOT_RUN, said)
    return Finding(HOLDS if off <= CLOSE else IN_PART if small.all() else FAILS, said)


def variance_grows_linearly(tables: Tables) -> Finding:
    """C2. Three parts: linear in depth, with the predicted slope, and as 1/N.

    Linear: at each quarter of the way the variance is within 3 standard errors of a straight line from 0 to the end.
    Slope: within 3 standard errors of 1/(2N), the printed one (of the log-norm: erratum E1). As 1/N: its power of N,
    fitted over five widths, is -1 to within 0.1. A table without those widths leaves the last part open, and the
    verdict is at most "in part". Not run: other sizes than N = 100, D = 500.
    """
    table = tables.get("fig1")
    if table is None:
        return not_run("fig1")
    slope, error, printed = fig1.slope(table), fig1.slope_error(table), 1 / (2 * table.facts["width"])
    power = _power_of_width(table)
    told = "at other widths not run" if np.isnan(power) else f"as N to the power {power:.2f}"
    straight = _straight(table)
    said = (
        f"{slope:.6f} ± {error:.6f} a layer, printed {printed:.6f}, exact "
        f"{table['exact'][-1] / table.facts['depth']:.6f}; {'straight' if straight else 'not straight'} over depth; "
        f"{told}. This is the variance of the log-norm (E1)."
    )
    if _other_size(table, _FIGURE_1):
        return Finding(NOT_RUN, said)
    return Finding(graded([straight, abs(slope - printed) <= NEAR * error, abs(power + 1) <= EXPONENT]), said)


def predicted_gains_match(tables: Tables) -> Finding:
    """C3. Holds: at every width the simulated best g of linear and ReLU is within 4 standard errors of eq. 13 and 18.

    In part: it is not, but the printed g would be serviceable: its mean log-norm over the depth stays within 1.
    Not run: fewer than 5 widths, or not D = 200.
    """
    table = tables.get("fig2")
    if table is None:
        return not_run("fig2")
    said, close, usable = [], [], []
    for name, equation in EQUATIONS.items():
        rows = table.where(panel="best", activation=name)
        off = np.abs(rows["gain"] - rows["printed"]) / rows["gain_error"]
        exact = np.abs(rows["gain"] - rows["ours"]) / rows["gain_error"]
        close.append(bool((off <= CLOSE).all()))
        drift = table.facts["depth"] * np.abs(np.log(rows["gain"] / rows["printed"]))
        usable.append(bool((drift < SERVICEABLE).all()))
        far = f"{off.max():.1f} standard errors of {equation} (farthest at N = {rows['width'][np.argmax(off)]:.0f})"
        said.append(f"{TITLES[name]} within {far}, {exact.max():.1f} of the exact g")
    if _few_widths(table):
        return Finding(NOT_RUN, _sentence(said))
    return Finding(HOLDS if all(close) else IN_PART if all(usable) else FAILS, _sentence(said))


def tanh_lies_between(tables: Tables) -> Finding:
    """C4. Holds: at every width the best g of tanh is 1.1 to 1.3, above linear's and below ReLU's. In part: at some.

    Not run: fewer than 5 widths, or not D = 200.
    """
    table = tables.get("fig2")
    if table is None:
        return not_run("fig2")
    linear, relu, tanh = (table.where(panel="best", activation=name) for name in ("linear", "relu", "tanh"))
    low, high = PAPERS_TANH
    inside = (tanh["gain"] >= low) & (tanh["gain"] <= high)
    between = (tanh["gain"] > linear["gain"]) & (tanh["gain"] < relu["gain"])
    said = (
        f"{low:g} to {high:g} at {_widths(tanh['width'], inside)}; above linear and below ReLU at "
        f"{_widths(tanh['width'], between)}; {tanh['gain'][0]:.2f} at N = {tanh['width'][0]:.0f} down to "
        f"{tanh['gain'][-1]:.2f} at N = {tanh['width'][-1]:.0f}."
    )
    if _few_widths(table):
        return Finding(NOT_RUN, said)
    return Finding(graded([bool(each) for each in inside & between]), said)


def tanh_is_serviceable_more_widely(tables: Tables) -> Finding:
    """C5. Holds: the g at which abs(mean log ratio) < 1 span a wider range, in per cent, for tanh than for both others.

    In part: than for one of them. Not run: a range that the simulated g do not span, or not N = 100 and D = 200.
    """
    table = tables.get("fig2")
    if table is None:
        return not_run("fig2")
    ends = {name: fig2.serviceable(table, name) for name in TITLES}
    wide = {name: high / low - 1 for name, (low, high) in ends.items()}
    said = "; ".join(
        f"{TITLES[name]} {low:.3f} to {high:.3f}, {100 * wide[name]:.1f} % wide" for name, (low, high) in ends.items()
    )
    if _other_size(table, _FIGURE_2) or any(map(np.isnan, wide.values())):
        return Finding(NOT_RUN, f"{said}.")
    return Finding(graded([wide["tanh"] > wide[name] for name in ("linear", "relu")]), f"{said}.")


def _other_size(table: Table, size: dict[str, float]) -> bool:
    return any(table.facts[name] != value for name, value in size.items())


def _few_widths(table: Table) -> bool:
    rows = table.where(panel="best", activation="linear")
    return len(rows["width"]) < ENOUGH_WIDTHS or table.facts["depth"] != _FIGURE_2["depth"]


def _straight(table: Table) -> bool:
    """Whether the variance at each quarter of the way lies on the line to its end."""
    depth, relative = table.facts["depth"], np.sqrt(2 / (table.facts["walks"] - 1))
    places = [round(depth * quarter / 4) for quarter in (1, 2, 3)]
    lines = [fig1.slope(table) * place for place in places]
    return all(
        abs(table["variance"][place] - line) <= NEAR * relative * line
        for place, line in zip(places, lines, strict=True)
    )


def _power_of_width(table: Table) -> float:
    """The power of N with which the variance goes, NaN where other widths were not run."""
    others = {
        name.removeprefix("variance_"): value for name, value in table.facts.items() if name.startswith("variance_")
    }
    if not others:
        return np.nan
    widths = [table.facts["width"], *map(float, others)]
    return float(np.polyfit(np.log(widths), np.log([fig1.slope(table), *others.values()]), 1)[0])


def _widths(widths: Array, chosen: Mask) -> str:
    """In words, at which widths something holds.

    >>> _widths(np.array([10.0, 20.0, 30.0]), np.array([False, True, True]))
    '2 of 3 widths (N = 20 to 30)'
    """
    held = widths[chosen]
    where = f" (N = {held.min():.0f} to {held.max():.0f})" if len(held) else ""
    return f"{len(held)} of {len(widths)} widths{where}"


def _sentence(parts: list[str]) -> str:
    return "; ".join(parts) + "."

"""C1 and C2, about the walks of Figure 1."""

from __future__ import annotations

import numpy as np

from gradwalk.figures import Table
from gradwalk.figures.fig1 import other_variances, slope, slope_error
from gradwalk.report.finding import FAILS, HOLDS, IN_PART, Claim, Finding, Tables, Verdict, graded, judged

WIDTH, DEPTH = 100, 500  # the paper's

CLOSE = 4.0  # standard errors: the limit for the largest of many deviations
NEAR = 3.0  # standard errors: the limit for a single deviation
SMALL = 0.1  # of the spread: a smaller mean has no consequences
EXPONENT = 0.1  # the largest deviation of the power of N from -1


def mean_stays_at_zero(tables: Tables) -> Finding:
    """Judge C1."""
    table = tables["fig1"]
    mean, error = table["mean"][1:], table["standard_error"][1:]
    deviation, small = float(np.abs(mean / error).max()), np.abs(mean) < SMALL * np.sqrt(table["variance"][1:])

    def verdict() -> Verdict:
        return HOLDS if deviation <= CLOSE else IN_PART if small.all() else FAILS

    came_out = (
        f"{mean[-1]:+.3f} ± {error[-1]:.3f} after {len(mean)} layers, {table.facts['walks']:,.0f} walks; never more "
        f"than {deviation:.1f} standard errors from 0"
    )
    return judged(came_out, _other_size(table), verdict)


def variance_grows_linearly(tables: Tables) -> Finding:
    """Judge C2."""
    table = tables["fig1"]
    measured, error, printed = slope(table), slope_error(table), 1 / (2 * table.facts["width"])
    power, linear = _power_of_width(table), _is_linear(table)
    scaling = "other widths not run" if np.isnan(power) else f"scales as N^{power:.2f}"
    came_out = (
        f"{measured:.6f} ± {error:.6f} per layer, printed {printed:.6f}, exact "
        f"{table['exact'][-1] / table.facts['depth']:.6f}; {'linear' if linear else 'not linear'} in depth; "
        f"{scaling}. This is the variance of the log-norm (E1)"
    )
    parts = [linear, abs(measured - printed) <= NEAR * error, abs(power + 1) <= EXPONENT]
    return judged(came_out, _other_size(table), lambda: graded(parts))


C1 = Claim(
    name="C1",
    words="With g = exp(1/(2N)) the mean of the linear walk stays at 0 (N = 100, D = 500).",
    criterion="Holds: the mean over the walks is within 4 standard errors of 0 at every layer. In part: it is not, "
    "but stays below a tenth of the walks’ spread. Undecided: other sizes than N = 100, D = 500.",
    figures=("fig1",),
    judge=mean_stays_at_zero,
    errata=("E4", "E8", "E10"),
    in_paper=True,
)
C2 = Claim(
    name="C2",
    words="Its variance grows linearly with depth, with the predicted slope, and as 1/N.",
    criterion="Three parts. Linear: at each quarter of the depth the variance is within 3 standard errors of a "
    "straight line from 0 to the end. Slope: within 3 standard errors of the printed 1/(2N), which is that of the "
    "log-norm (erratum E1). As 1/N: the power of N, fitted over five widths, is within 0.1 of -1; a table without "
    "those widths leaves this part open, and the verdict is at most “in part”. Undecided: other sizes than N = 100, "
    "D = 500.",
    figures=("fig1",),
    judge=variance_grows_linearly,
    errata=("E1",),
    in_paper=True,
)


def _other_size(table: Table) -> str | None:
    if (table.facts["width"], table.facts["depth"]) == (WIDTH, DEPTH):
        return None
    return f"N = {WIDTH}, D = {DEPTH} are needed"


def _is_linear(table: Table) -> bool:
    """Return whether the variance at each quarter of the depth lies on the line from 0 to its end."""
    depth, relative = table.facts["depth"], np.sqrt(2 / (table.facts["walks"] - 1))
    layers = [round(depth * quarter / 4) for quarter in (1, 2, 3)]
    expected = [slope(table) * layer for layer in layers]
    return all(
        abs(table["variance"][layer] - value) <= NEAR * relative * value
        for layer, value in zip(layers, expected, strict=True)
    )


def _power_of_width(table: Table) -> float:
    """Return the power of N with which the variance scales, NaN if other widths were not run."""
    others = other_variances(table)
    if not others:
        return np.nan
    widths, variances = [table.facts["width"], *others], [slope(table), *others.values()]
    return float(np.polyfit(np.log(widths), np.log(variances), 1)[0])

"""C3, C4 and C5, about the gains of Figure 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwalk.figures import Table
from gradwalk.figures.fig2 import EQUATIONS, GUIDE, PAPERS_TANH, TITLES, usable_gains
from gradwalk.report.claims.walks import CLOSE
from gradwalk.report.finding import FAILS, HOLDS, IN_PART, Claim, Finding, Tables, Verdict, graded, judged

WIDTH, DEPTH = 100, 200  # the paper's
ENOUGH_WIDTHS = 5
MOST = 0.5  # of the widths


def predicted_gains_match(tables: Tables) -> Finding:
    """Judge C3."""
    table = tables["fig2"]
    matches = [_match(table, name) for name in EQUATIONS]

    def verdict() -> Verdict:
        if all(match.everywhere for match in matches):
            return HOLDS
        return IN_PART if all(match.mostly for match in matches) else FAILS

    return judged("; ".join(match.words for match in matches), _too_few_widths(table), verdict)


def tanh_lies_between(tables: Tables) -> Finding:
    """Judge C4."""
    table = tables["fig2"]
    tanh = table.where(panel="best", activation="tanh")
    (low, high), width, gain = PAPERS_TANH, tanh["width"], tanh["gain"]
    linear, relu = (_gains_at(table, name, width) for name in ("linear", "relu"))
    inside = (gain >= low) & (gain <= high)
    between = (gain > linear) & (gain < relu)
    came_out = (
        f"{low:g} to {high:g} at {_widths(width, inside)}; above linear and below ReLU at {_widths(width, between)}; "
        f"{gain[0]:.2f} at N = {width[0]:.0f} down to {gain[-1]:.2f} at N = {width[-1]:.0f}"
    )
    return judged(came_out, _too_few_widths(table), lambda: graded([bool(each) for each in inside & between]))


def tanh_has_the_widest_range(tables: Tables) -> Finding:
    """Judge C5."""
    table = tables["fig2"]
    ends = {name: usable_gains(table, name) for name in TITLES}
    wide = {name: high / low - 1 for name, (low, high) in ends.items()}
    came_out = "; ".join(
        f"{TITLES[name]} {low:.3f} to {high:.3f}, {100 * wide[name]:.1f} % wide" for name, (low, high) in ends.items()
    )
    obstacle = None
    if (table.facts["width"], table.facts["depth"]) != (WIDTH, DEPTH):
        obstacle = f"N = {WIDTH}, D = {DEPTH} are needed"
    elif any(map(np.isnan, wide.values())):
        obstacle = "the simulated g do not span the range"
    return judged(came_out, obstacle, lambda: graded([wide["tanh"] > wide[name] for name in ("linear", "relu")]))


C3 = Claim(
    name="C3",
    words="The predicted g of linear and ReLU matches the simulated best g over N.",
    criterion="Holds: at every width the simulated best g of linear and ReLU is within 4 standard errors of eq. 13 "
    "and 18. In part: at more than half of the widths, for both, or so near that at the printed g the mean log-norm "
    "over the depth would stay within 1. Undecided: fewer than 5 widths, or not D = 200.",
    figures=("fig2",),
    judge=predicted_gains_match,
    errata=("E2", "E3", "E11", "E12"),
    in_paper=True,
)
C4 = Claim(
    name="C4",
    words="The best g of tanh lies between 1.1 and 1.3, above linear and below ReLU.",
    criterion="Holds: at every width the best g of tanh is 1.1 to 1.3, above that of linear and below that of ReLU. "
    "In part: at some widths. Undecided: fewer than 5 widths, or not D = 200.",
    figures=("fig2",),
    judge=tanh_lies_between,
    in_paper=True,
)
C5 = Claim(
    name="C5",
    words="The range of serviceable g is wider for tanh than for linear or ReLU.",
    criterion="Holds: the g at which the absolute mean log ratio is below 1 span a wider range, in per cent, for "
    "tanh than for both others. In part: than for one of them. Undecided: the simulated g do not span the range, or "
    "not N = 100 and D = 200.",
    figures=("fig2",),
    judge=tanh_has_the_widest_range,
    in_paper=True,
)


@dataclass(frozen=True)
class _Match:
    """How the simulated best g of an activation compare with an equation of the paper."""

    everywhere: bool
    mostly: bool
    words: str


def _match(table: Table, name: str) -> _Match:
    rows = table.where(panel="best", activation=name)
    widths, gain, error = rows["width"], rows["gain"], rows["gain_error"]
    deviation, exact = (np.abs(gain - rows[other]) / error for other in ("printed", "ours"))
    usable = table.facts["depth"] * np.abs(np.log(gain / rows["printed"])) < GUIDE
    close = deviation <= CLOSE
    farthest = f"{deviation.max():.1f} standard errors away at N = {widths[np.argmax(deviation)]:.0f}"
    words = f"{TITLES[name]}: {EQUATIONS[name]} at {_widths(widths, close)}, {farthest}"
    mostly = bool((close | usable).mean() > MOST)
    return _Match(bool(close.all()), mostly, f"{words}; at most {exact.max():.1f} from the exact g")


def _too_few_widths(table: Table) -> str | None:
    rows = table.where(panel="best", activation="linear")
    if len(rows.frame) < ENOUGH_WIDTHS:
        return f"{ENOUGH_WIDTHS} widths are needed"
    return None if table.facts["depth"] == DEPTH else f"D = {DEPTH} is needed"


def _gains_at(table: Table, name: str, widths: NDArray[Any]) -> NDArray[Any]:
    """Return the simulated best g of an activation at these widths, NaN where there is none."""
    rows = table.where(panel="best", activation=name)
    by_width = dict(zip(rows["width"], rows["gain"], strict=True))
    return np.array([by_width.get(width, np.nan) for width in widths])


def _widths(widths: NDArray[Any], chosen: NDArray[Any]) -> str:
    """Return in words at which widths something holds.

    >>> _widths(np.array([10.0, 20.0, 30.0]), np.array([False, True, True]))
    '2 of 3 widths (N = 20 to 30)'
    """
    held = widths[chosen]
    where = f" (N = {held.min():.0f} to {held.max():.0f})" if len(held) else ""
    return f"{len(held)} of {len(widths)} widths{where}"

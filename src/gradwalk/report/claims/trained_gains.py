"""C6 and C12, about training error against g in Figure 3."""

from __future__ import annotations

from gradwalk.figures import Table
from gradwalk.figures.error_by_depth import errors_by_depth
from gradwalk.figures.fig3 import PAPERS_BEST, TITLES, GainRange, gain_ranges
from gradwalk.figures.outcomes import NEAR_ZERO, example_count, finished, percent
from gradwalk.figures.training_scale import TrainingScale
from gradwalk.report.claims.training import MNIST, PAPERS_EPOCHS, too_small
from gradwalk.report.finding import Claim, Finding, Tables, graded, judged, not_run

MOST = 0.5  # "most depths": more than this share
ALMOST_ALL = 0.9


def best_gain_is_in_range(tables: Tables) -> Finding:
    """Judge C6."""
    table = tables["fig3"]
    ranges, obstacle = gain_ranges(table), too_small(table, MNIST)
    parts, words = [], []
    for name, (low, high) in PAPERS_BEST.items():
        if not _exceeds(table, name, low, high):
            obstacle = obstacle or f"no g outside {low:g} to {high:g} for {TITLES[name]}"
            continue
        gain_range = ranges[name]
        depths = ", ".join(f"{best.gain:g} at D = {best.depth}" for best in gain_range.depths)
        count = f"{gain_range.inside} of {len(gain_range.depths)} depths in {low:g} to {high:g}"
        words.append(f"{TITLES[name]} {depths}: {count}")
        parts.append(gain_range.share_inside > MOST)
    return judged("Best g: " + "; ".join(words), obstacle, lambda: graded(parts))


def right_gain_reaches_zero(tables: Tables) -> Finding:
    """Judge C12."""
    if "fig3" not in tables:
        return not_run("fig3")
    table = tables["fig3"]
    ranges = {name: gain_range for name, gain_range in gain_ranges(table).items() if name in PAPERS_BEST}
    shares = [gain_range.near_zero for gain_range in ranges.values()]
    words = [_near_zero(name, gain_range, example_count(finished(table))) for name, gain_range in ranges.items()]
    if "fig4a" in tables and not too_small(tables["fig4a"], MNIST):
        shares.append(errors_by_depth(tables["fig4a"]).near_zero)
        words.append(f"Figure 4A {100 * shares[-1]:.0f} % of depths")
    reached = all(share >= ALMOST_ALL for share in shares)
    obstacle = too_small(table, MNIST)
    if not (finished(table)["gain"] == 1.0).any():
        obstacle = obstacle or "g = 1 was not run"
    if not reached and TrainingScale.of(table).epochs < PAPERS_EPOCHS:
        obstacle = obstacle or f"{PAPERS_EPOCHS} epochs are needed"
    lost = all(not gain_range.depths[-1].error_at_1 <= NEAR_ZERO for gain_range in ranges.values())
    return judged("At most 1 % mistakes: " + "; ".join(words), obstacle, lambda: graded([reached, lost]))


C6 = Claim(
    name="C6",
    words="Trained on MNIST, the best g is 1.1 to 1.4 for tanh and 1.4 to 1.55 for ReLU, at most depths.",
    criterion="Holds: for most depths the g of least training error is in the paper’s range, for tanh and for ReLU. In "
    "part: for one of the two. Undecided: not on MNIST, fewer than 5,000 examples or 5 epochs, or no g outside the "
    "ranges to compare with.",
    figures=("fig3",),
    judge=best_gain_is_in_range,
    errata=("E6", "E9"),
    in_paper=True,
)
C12 = Claim(
    name="C12",
    words="Almost every net with the right g and a fitting learning rate gets to zero or near-zero error, whatever its "
    "depth; g = 1 does not.",
    criterion="Two parts: at 90 % of the depths and g in the paper’s ranges (Figure 3), and at 90 % of the depths of "
    "Figure 4A, some learning rate reaches at most 1 % mistakes; at the greatest depth of Figure 3, g = 1 does not. "
    "Undecided: Figure 3 not on MNIST, fewer than 5,000 examples or 5 epochs, without g = 1; or the first part fails "
    "before 500 epochs.",
    figures=("fig3", "fig4a"),
    judge=right_gain_reaches_zero,
    in_paper=True,
)


def _exceeds(table: Table, name: str, low: float, high: float) -> bool:
    """Return whether an activation was run at g below and above a range."""
    runs = finished(table)
    gains = runs["gain"][runs["activation"] == name]
    return bool(gains.min() < low and gains.max() > high)


def _near_zero(name: str, gain_range: GainRange, examples: float | None) -> str:
    deepest = gain_range.depths[-1]
    at_1 = f"g = 1 at D = {deepest.depth}: {percent(deepest.error_at_1, examples)}"
    return f"{TITLES[name]} {100 * gain_range.near_zero:.0f} % of depths and right g; {at_1}"

"""C6 and C12, about training error against g in Figure 3."""

from __future__ import annotations

from gradwalk.figures import Table
from gradwalk.figures.error_by_depth import errors_by_depth
from gradwalk.figures.fig3 import PAPERS_BEST, TITLES, GainRange, gain_ranges
from gradwalk.figures.outcomes import finished
from gradwalk.report.claims.matching import Matching
from gradwalk.report.claims.schedule import VERY_DEEP
from gradwalk.report.claims.training import MNIST, still_learning, too_small
from gradwalk.report.finding import Claim, Finding, Part, Tables, not_run, weighed

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
        words.append(f"{TITLES[name]} {_best_gains(ranges[name])}")
        parts.append(_at_most_depths(TITLES[name], ranges[name]))
    came_out = "Best g: " + "; ".join(words) + Matching.of("fig3", table).reach()
    return weighed(came_out, obstacle, lambda: parts)


def right_gain_reaches_zero(tables: Tables) -> Finding:
    """Judge C12."""
    if "fig3" not in tables:
        return not_run("fig3")
    table, matching = tables["fig3"], Matching.of("fig3", tables["fig3"])
    ranges = {name: gain_range for name, gain_range in gain_ranges(table).items() if name in PAPERS_BEST}
    shares = {f"{TITLES[name]} (depths and right g)": gain_range.near_zero for name, gain_range in ranges.items()}
    if "fig4a" in tables and not too_small(tables["fig4a"], MNIST):
        shares["Figure 4A (depths)"] = errors_by_depth(tables["fig4a"]).near_zero
    words = "; ".join(f"{100 * share:.0f} % of {name}" for name, share in shares.items())
    obstacle = too_small(table, MNIST)
    if matching.papers(max(matching.depths)) < VERY_DEEP:
        obstacle = obstacle or f"no depth over width of the paper’s D = {VERY_DEEP}"
    parts = [_almost_all(share, still_learning(table)) for share in shares.values()]
    return weighed(f"At most 1 % mistakes: {words}{matching.reach()}", obstacle, lambda: parts)


C6 = Claim(
    name="C6",
    words="Trained on MNIST, the best g is 1.1 to 1.4 for tanh and 1.4 to 1.55 for ReLU, at most depths.",
    criterion="Holds: for most of the depths that tell, some g in the paper’s range has a lower training error than "
    "all g outside, for tanh and for ReLU. In part: for one of the two. An error is the mean over the seeds at the "
    "best of the learning rates; it is lower than another if it is so by more than a tenth and by two standard errors. "
    "Undecided: not on MNIST, fewer than 5,000 examples or 5 epochs, no g outside the ranges to compare with, or g "
    "inside and outside are too close to call at half of the depths, such as those where both make no mistake.",
    figures=("fig3",),
    judge=best_gain_is_in_range,
    errata=("E6", "E9"),
    in_paper=True,
)
C12 = Claim(
    name="C12",
    words="Almost every net with the right g and a fitting learning rate gets to zero or near-zero error, whatever its "
    "depth.",
    criterion="Holds: some learning rate reaches at most 1 % mistakes at 90 % of the depths and g in the paper’s "
    "ranges, for tanh and for ReLU (Figure 3), and at 90 % of the depths of Figure 4A, if it was run. In part: for "
    "some of these. Undecided: not on MNIST, fewer than 5,000 examples or 5 epochs, no net as deep over width as the "
    "paper’s D = 32; or not reached, and the learning rates have not run down to a tenth.",
    figures=("fig3", "fig4a"),
    judge=right_gain_reaches_zero,
    in_paper=True,
)


def _exceeds(table: Table, name: str, low: float, high: float) -> bool:
    """Return whether an activation was run at g below and above a range."""
    runs = finished(table)
    gains = runs["gain"][runs["activation"] == name]
    return bool(gains.min() < low and gains.max() > high)


def _best_gains(gain_range: GainRange) -> str:
    marks = {True: "", False: " (outside)", None: " (too close to call)"}
    depths = ", ".join(f"{best.gain:g} at D = {best.depth}{marks[best.in_range]}" for best in gain_range.depths)
    clear = sum(best.in_range is True for best in gain_range.depths)
    return f"{depths}: {clear} of {len(gain_range.depths)} depths clearly in {gain_range.low:g} to {gain_range.high:g}"


def _at_most_depths(title: str, gain_range: GainRange) -> Part:
    """Return whether the best g is in the range at most of the depths that tell, which must be more than half."""
    told, half = [best.in_range for best in gain_range.depths], len(gain_range.depths) / 2
    inside, outside = told.count(True), told.count(False)
    if inside + outside > half or outside >= half:
        return Part(inside > outside)
    return Part(None, f"{title}: too close to call at too many depths")


def _almost_all(share: float, still: str | None) -> Part:
    """Return whether almost all networks reached near-zero error; while they are still learning, that they may."""
    if share >= ALMOST_ALL:
        return Part(True)
    return Part(None, still) if still else Part(False)

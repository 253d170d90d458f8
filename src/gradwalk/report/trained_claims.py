"""C6 to C12, which Figures 3 and 4 bear on: each function says by what numbers its claim holds, in part, or not.

A table counts if it was trained on the claim's data set, on at least 5,000 examples for at least 5 epochs; what came
out of less is told, and the claim is "not run at this scale". A verdict from less than the paper's scale is about that
scale, and the page says so beside it. That something is *reached* can be shown in fewer epochs, but not refuted: C9 and
C12 say "does not hold" only after the paper's 500 epochs. And which depth ends with the least error (C7, C8, C10) shows
only once the depths that are named have come down: after fewer than 500 epochs they must have, or depths have only been
compared in speed.
"""

from __future__ import annotations

import numpy as np

from gradwalk.data import full_size
from gradwalk.figures import fig3, fig4a, fig4c
from gradwalk.figures.fig3 import PAPERS_BEST
from gradwalk.figures.outcomes import (
    NEAR_ZERO,
    averages,
    dependable,
    example_count,
    finished,
    percent,
    ratio,
    schedule,
    select,
    unique,
)
from gradwalk.figures.table import Table
from gradwalk.report.extent import MNIST, PAPERS_EPOCHS, TIMIT, Extent
from gradwalk.report.finding import (
    FAILS,
    HOLDS,
    IN_PART,
    Finding,
    Tables,
    Verdict,
    graded,
    judged,
    not_run,
    title,
)

MOST = 0.5  # "most depths": more than this share
ALMOST_ALL = 0.9
ABOUT_TWICE = 2.5  # what "roughly 2x" may be at most
LEARNED = 0.25  # of a constant answer's error: above this, a network is not near its end
SOMETHING_LEARNED = 0.5  # of a constant answer's error: above this, no learning rate fitted
ABOUT_50, TWICE_THAT = 75.0, 150.0  # mistakes
PAPERS_WIDTH = (240, 260)  # about 249
TIED = 1.1  # errors within this factor of each other
GREAT_DEAL = 2.0  # times smaller an error
VERY_DEEP = 32  # the depth at which the paper says it made "a huge difference"

_SCHEDULED = ("fig4a", "fig4b", "fig4c", "fig4d")


def best_gain_is_in_range(tables: Tables) -> Finding:
    """C6. Holds: for most depths the g of least training error is in the paper's range, for tanh and for ReLU.

    In part: for one of the two. Not run: not on MNIST, less than the least, or no g outside the ranges to lose against.
    """
    table = tables.get("fig3")
    if table is None:
        return not_run("fig3")
    found, shown = fig3.claims(table), finished(table)
    parts, said, lacking = [], [], Extent.of(table).too_little(MNIST)
    for name, (low, high) in PAPERS_BEST.items():
        rows = shown.where(activation=name)
        gains = rows["gain"]
        if not len(gains) or gains.min() >= low or gains.max() <= high:
            lacking = lacking or f"no g outside {low:g} to {high:g} for {fig3.TITLES[name]}"
            continue
        depths = unique(rows["depth"])
        each = ", ".join(f"{found[f'{name}_{depth:.0f}_best_gain']:g} at D = {depth:.0f}" for depth in depths)
        inside = round(found[f"{name}_in_range"] * len(depths))
        said.append(f"{fig3.TITLES[name]} {each}: {inside} of {len(depths)} depths in {low:g} to {high:g}")
        parts.append(found[f"{name}_in_range"] > MOST)
    return judged("Best g: " + "; ".join(said), lacking, lambda: graded(parts))


def shallowest_is_best(tables: Tables) -> Finding:
    """C7. Two parts: D = 2 has the least training error; D = 16 and 32 have less than all other depths.

    The error of a depth is the least over the learning rates of the mean over g, as Figure 4A shows it. Not run: not on
    MNIST, less than the least, without D = 2, 16, 32 and one more; or fewer than 500 epochs, after which one of these
    three still has more than 1 % mistakes.
    """
    table = tables.get("fig4a")
    if table is None:
        return not_run("fig4a")
    errors, said = _by_depth(table)
    others = [error for depth, error in errors.items() if depth not in (2, 16, 32)]
    lacking = Extent.of(table).too_little(MNIST) or _missing(errors, 2, 16, 32)
    if not lacking and not others:
        lacking = "no depth besides 2, 16 and 32"
    lacking = lacking or _unsettled(table, errors, NEAR_ZERO, 2, 16, 32)

    def verdict() -> Verdict:
        return graded([errors[2] <= min(errors.values()), max(errors[16], errors[32]) <= min(others)])

    return judged(said, lacking, verdict)


def deep_autoencoder_is_close(tables: Tables) -> Finding:
    """C8. Two parts: the shallowest auto-encoder has the least error; that of D = 128 is at most 2.5 times as large.

    Not run: not on MNIST, less than the least, without D = 128; or fewer than 500 epochs, after which the shallowest or
    D = 128 still has more than a quarter of a constant answer's error.
    """
    table = tables.get("fig4b")
    if table is None:
        return not_run("fig4b")
    errors, said = _by_depth(table)
    shallowest, deepest, constant = min(errors), max(errors), float(table["constant_error"][0])
    said += (
        f"; D = {deepest:.0f} has {errors[deepest] / errors[shallowest]:.2g} times the error of D = {shallowest:.0f}, "
        f"a constant answer {constant / errors[shallowest]:.2g} times"
    )
    lacking = Extent.of(table).too_little(MNIST) or _missing(errors, 128)
    lacking = lacking or _unsettled(table, errors, LEARNED * constant, shallowest, 128)

    def verdict() -> Verdict:
        close = errors[128] <= ABOUT_TWICE * errors[shallowest]
        return graded([errors[shallowest] <= min(errors.values()), close])

    return judged(said, lacking, verdict)


def a_thousand_layers_learn(tables: Tables) -> Finding:
    """C9. Holds: the best run from Gaussian weights got down to 75 training mistakes or fewer. In part: to 150.

    Not run: not on all 60,000 examples of MNIST, fewer than 1000 layers, not about 249 wide, or more than 150 mistakes
    in fewer than 500 epochs.
    """
    table = tables.get("fig4c")
    if table is None:
        return not_run("fig4c")
    extent, found, shown = Extent.of(table), fig4c.claims(table), finished(table)
    fewest = {str(kind): _fewest(shown.where(weights=kind)) for kind in sorted(set(shown["weights"].tolist()))}
    each = " and ".join(
        f"{count:,.0f} from {kind.replace('gaussian', 'Gaussian')} weights" for kind, count in fewest.items()
    )
    said = (
        f"Fewest mistakes of {extent.examples:,.0f}: {each}, within {extent.epochs:.0f} epochs; "
        f"D = {found['depth']:.0f}, N = {found['width']:.0f}"
    )
    lacking = extent.too_little(MNIST)
    mistakes = fewest.get("gaussian", np.inf)
    if extent.examples < (whole := full_size(MNIST) or 0):
        lacking = lacking or f"{whole:,} examples are needed"
    if found["depth"] < 1000 or not PAPERS_WIDTH[0] <= found["width"] <= PAPERS_WIDTH[1]:
        lacking = lacking or "D = 1000 and N = 249 are needed"
    if mistakes > TWICE_THAT and extent.epochs < PAPERS_EPOCHS:
        lacking = lacking or f"{PAPERS_EPOCHS} epochs are needed"
    return judged(
        said, lacking, lambda: HOLDS if mistakes <= ABOUT_50 else IN_PART if mistakes <= TWICE_THAT else FAILS
    )


def sixteen_and_thirty_two_tie(tables: Tables) -> Finding:
    """C10. Two parts: D = 16 has the least training error, or D = 32 in a tie with it; the two are within 10 %.

    Not run: not on TIMIT itself (the public sample is not comparable), less than the least, without D = 16, 32 and one
    more; or fewer than 500 epochs, after which D = 16 or 32 still has more than a quarter of a constant answer's error.
    """
    table = tables.get("fig4d")
    if table is None:
        return not_run("fig4d")
    errors, said = _by_depth(table)
    lacking = Extent.of(table).too_little(TIMIT) or _missing(errors, 16, 32)
    if not lacking and len(errors) < 3:
        lacking = "no depth besides 16 and 32"
    lacking = lacking or _unsettled(table, errors, LEARNED * float(table["constant_error"][0]), 16, 32)

    def verdict() -> Verdict:
        pair = errors[16], errors[32]
        tied = max(pair) <= TIED * min(pair)
        return graded([(min(pair) if tied else errors[16]) <= min(errors.values()), tied])

    return judged(said, lacking, verdict)


def schedule_matters(tables: Tables) -> Finding:
    """C11. Holds: in each panel of Figure 4, very deep nets have half the error or less with rates that differ over
    depth than with equal ones, and equal ones do not get to 1 % mistakes.

    In part: in some of the panels. Of each panel the greatest depth counts that is at least 32 and at which some rates
    trained a net from Gaussian weights: to half of a constant answer's error, or less. Not run: no panel has one.
    """
    there = {name: finished(tables[name]).where(weights="gaussian") for name in _SCHEDULED if name in tables}
    if not there:
        return not_run(*_SCHEDULED)
    said, parts, lacking = [], [], None
    for name, table in there.items():
        too_little = Extent.of(tables[name]).too_little(MNIST, TIMIT, "TIMIT sample")
        learned = _deepest_that_learned(table if name != "fig4c" else fig4c.last_epochs(table))
        if learned is None:
            said.append(f"{title(name)}: no net of {VERY_DEEP} layers or more learned from Gaussian weights")
            lacking = lacking or too_little or "nothing to compare"
            continue
        depth, examples, even, uneven = learned
        said.append(
            f"{title(name)}, D = {depth:.0f}: {_short(even, examples)} with equal rates, {_short(uneven, examples)} "
            "with unequal"
        )
        lacking = lacking or too_little
        if too_little is None:
            needed = examples is None or even > NEAR_ZERO
            parts.append(needed and ratio(even, uneven, examples) >= GREAT_DEAL)
    return judged("; ".join(said), None if parts else lacking, lambda: graded(parts))


def right_gain_reaches_zero(tables: Tables) -> Finding:
    """C12. Two parts: at 90 % of the depths and g in the paper's ranges (Figure 3), and at 90 % of the depths of Figure
    4A, some learning rate gets to at most 1 % mistakes; at the greatest depth of Figure 3, g = 1 does not.

    Not run: Figure 3 not on MNIST, less than the least, without g = 1; or the first part fails before 500 epochs.
    """
    table = tables.get("fig3")
    if table is None:
        return not_run("fig3")
    extent, found, shown = Extent.of(table), fig3.claims(table), finished(table)
    shares, lost, said = [], [], []
    for name in (name for name in PAPERS_BEST if f"{name}_near_zero" in found):
        rows = shown.where(activation=name)
        deepest = max(unique(rows["depth"]))
        shares.append(found[f"{name}_near_zero"])
        at_1 = found[f"{name}_{deepest:.0f}_error_at_1"]
        lost.append(not at_1 <= NEAR_ZERO)
        said.append(
            f"{fig3.TITLES[name]} {100 * shares[-1]:.0f} % of depths and right g; g = 1 at D = {deepest:.0f}: "
            f"{percent(at_1, example_count(shown))}"
        )
    second = tables.get("fig4a")
    if second is not None and not Extent.of(second).too_little(MNIST):
        shares.append(fig4a.claims(second)["near_zero"])
        said.append(f"Figure 4A {100 * shares[-1]:.0f} % of depths")
    reached = all(share >= ALMOST_ALL for share in shares)
    lacking = extent.too_little(MNIST)
    if not (shown["gain"] == 1.0).any():
        lacking = lacking or "g = 1 was not run"
    if not reached and extent.epochs < PAPERS_EPOCHS:
        lacking = lacking or f"{PAPERS_EPOCHS} epochs are needed"
    return judged("At most 1 % mistakes: " + "; ".join(said), lacking, lambda: graded([reached, all(lost)]))


def _deepest_that_learned(table: Table) -> tuple[float, float | None, float, float] | None:
    """Return the greatest depth at which some rates trained a very deep net, the number of examples, and the least
    errors with equal and with unequal rates, infinite where all diverged; None if there is no such depth.
    """
    if not len(table["depth"]):
        return None
    points, examples = averages(table), example_count(table)
    for depth in reversed(unique(points["depth"])):
        found = schedule(dependable(select(points, points["depth"] == depth)), examples)
        even, uneven = (float(np.nan_to_num(found[rates], nan=np.inf)) for rates in ("equal_rates", "unequal_rates"))
        if depth >= VERY_DEEP and min(even, uneven) <= SOMETHING_LEARNED * float(table["constant_error"][0]):
            return depth, examples, even, uneven
    return None


def _by_depth(table: Table) -> tuple[dict[float, float], str]:
    """Return the error of each depth, infinite where every run diverged, and the same in words."""
    found, shown = fig4a.claims(table), finished(table)
    depths, examples = unique(shown["depth"]), example_count(shown)
    errors = {depth: found[f"{depth:.0f}_error"] for depth in depths}
    said = ", ".join(f"{percent(error, examples)} at D = {depth:.0f}" for depth, error in errors.items())
    return {depth: float(np.nan_to_num(error, nan=np.inf)) for depth, error in errors.items()}, f"Least error {said}"


def _short(error: float, examples: float | None) -> str:
    """An error in few words, infinite where every run diverged."""
    if not np.isfinite(error):
        return "none"
    return f"{error:.3f}" if examples is None else f"{100 * error:.2f} %"


def _missing(errors: dict[float, float], *depths: float) -> str | None:
    lacking = [f"{depth:.0f}" for depth in depths if depth not in errors]
    return f"D = {' and '.join(lacking)} not run" if lacking else None


def _unsettled(table: Table, errors: dict[float, float], enough: float, *named: float) -> str | None:
    """Why the errors of the named depths cannot be compared yet, None where they can."""
    epochs = Extent.of(table).epochs
    slow = [f"{depth:.0f}" for depth in named if errors[depth] > enough]
    if not slow or epochs >= PAPERS_EPOCHS:
        return None
    return f"after {epochs:.0f} of {PAPERS_EPOCHS} epochs not done: D = {' and '.join(slow)}"


def _fewest(table: Table) -> float:
    return float(np.nanmin(np.append(table["train_mistakes"], np.inf)))

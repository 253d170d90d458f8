"""C7, C8 and C10, about training error against depth in Figures 4A, 4B and 4D."""

from __future__ import annotations

from gradwalk.figures import Table
from gradwalk.figures.error_by_depth import errors_by_depth
from gradwalk.figures.outcomes import NEAR_ZERO, constant_error, percent
from gradwalk.report.claims.training import (
    LEARNED,
    MNIST,
    TIMIT,
    infinite_if_diverged,
    missing,
    too_small,
    unsettled,
)
from gradwalk.report.finding import Claim, Finding, Tables, Verdict, graded, judged

ABOUT_TWICE = 2.5  # the largest factor that is still "roughly 2x"
TIED = 1.1  # errors within this factor of each other are tied


def shallowest_is_best(tables: Tables) -> Finding:
    """Judge C7."""
    table = tables["fig4a"]
    errors, came_out = _least_errors(table)
    others = [error for depth, error in errors.items() if depth not in (2, 16, 32)]
    obstacle = too_small(table, MNIST) or missing(errors, 2, 16, 32)
    if not obstacle and not others:
        obstacle = "no depth besides 2, 16 and 32"
    obstacle = obstacle or unsettled(table, errors, NEAR_ZERO, 2, 16, 32)

    def verdict() -> Verdict:
        return graded([errors[2] <= min(errors.values()), max(errors[16], errors[32]) <= min(others)])

    return judged(came_out, obstacle, verdict)


def deep_autoencoder_is_close(tables: Tables) -> Finding:
    """Judge C8."""
    table = tables["fig4b"]
    errors, came_out = _least_errors(table)
    shallowest, deepest, constant = min(errors), max(errors), constant_error(table.frame)
    came_out += (
        f"; D = {deepest} has {errors[deepest] / errors[shallowest]:.2g} times the error of D = {shallowest}, a "
        f"constant answer {constant / errors[shallowest]:.2g} times"
    )
    obstacle = too_small(table, MNIST) or missing(errors, 128)
    obstacle = obstacle or unsettled(table, errors, LEARNED * constant, shallowest, 128)

    def verdict() -> Verdict:
        close = errors[128] <= ABOUT_TWICE * errors[shallowest]
        return graded([errors[shallowest] <= min(errors.values()), close])

    return judged(came_out, obstacle, verdict)


def sixteen_and_thirty_two_tie(tables: Tables) -> Finding:
    """Judge C10."""
    table = tables["fig4d"]
    errors, came_out = _least_errors(table)
    obstacle = too_small(table, TIMIT) or missing(errors, 16, 32)
    if not obstacle and len(errors) < 3:
        obstacle = "no depth besides 16 and 32"
    obstacle = obstacle or unsettled(table, errors, LEARNED * constant_error(table.frame), 16, 32)

    def verdict() -> Verdict:
        pair = errors[16], errors[32]
        tied = max(pair) <= TIED * min(pair)
        return graded([(min(pair) if tied else errors[16]) <= min(errors.values()), tied])

    return judged(came_out, obstacle, verdict)


C7 = Claim(
    name="C7",
    words="MNIST: depth 2 has the best training error, depths 16 and 32 come next.",
    criterion="Two parts: D = 2 has the least training error; D = 16 and 32 have less than all other depths. The "
    "error of a depth is the least over the learning rates of the mean over g, as Figure 4A shows it. Undecided: "
    "not on MNIST, fewer than 5,000 examples or 5 epochs, without D = 2, 16, 32 and one more; or fewer than 500 "
    "epochs, after which one of these three still has more than 1 % mistakes.",
    figures=("fig4a",),
    judge=shallowest_is_best,
    errata=("E6",),
    in_paper=True,
)
C8 = Claim(
    name="C8",
    words="Auto-encoder: the most shallow is best, and depth 128 only roughly 2x greater in error.",
    criterion="Two parts: the shallowest auto-encoder has the least error; that of D = 128 is at most 2.5 times as "
    "large. Undecided: not on MNIST, fewer than 5,000 examples or 5 epochs, without D = 128; or fewer than 500 "
    "epochs, after which the shallowest or D = 128 still has more than a quarter of a constant answer’s error.",
    figures=("fig4b",),
    judge=deep_autoencoder_is_close,
    errata=("E7",),
    in_paper=True,
)
C10 = Claim(
    name="C10",
    words="TIMIT: depth 16 has the best training error, depth 32 essentially tied.",
    criterion="Two parts: D = 16 has the least training error, or D = 32 in a tie with it; the two are within 10 %. "
    "Undecided: not on TIMIT itself (the public sample is not comparable), fewer than 5,000 examples or 5 epochs, "
    "without D = 16, 32 and one more; or fewer than 500 epochs, after which D = 16 or 32 still has more than a "
    "quarter of a constant answer’s error.",
    figures=("fig4d",),
    judge=sixteen_and_thirty_two_tie,
    in_paper=True,
)


def _least_errors(table: Table) -> tuple[dict[int, float], str]:
    """Return the error of each depth, infinite if every run diverged, and the same in words."""
    by_depth = errors_by_depth(table)
    words = ", ".join(f"{percent(error, by_depth.examples)} at D = {depth}" for depth, error in by_depth.errors.items())
    return {depth: infinite_if_diverged(error) for depth, error in by_depth.errors.items()}, f"Least error {words}"

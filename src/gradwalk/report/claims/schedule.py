"""C11, about learning rates that vary over depth in all panels of Figure 4."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gradwalk.figures import Table
from gradwalk.figures.outcomes import (
    NEAR_ZERO,
    constant_error,
    example_count,
    finished,
    grouped,
    last_epochs,
    least,
    ratio,
    unique,
)
from gradwalk.report.claims.matching import Matching
from gradwalk.report.claims.training import MNIST, TIMIT, TIMIT_SAMPLE, still_learning, too_small
from gradwalk.report.finding import Claim, Finding, Part, Tables, figure_title, weighed

if TYPE_CHECKING:
    from pandas import DataFrame

SOMETHING_LEARNED = 0.5  # of a constant answer's error: above this, no learning rate was suitable
GREAT_DEAL = 2.0  # the factor by which an error must be smaller
VERY_DEEP = 32  # the depth at which the paper reports "a huge difference"
LEAST_LEVELS, LEAST_PAIRS = 3, 3
CERTAIN = 2.0  # standard errors
PANELS = ("fig4a", "fig4b", "fig4c", "fig4d")


@dataclass(frozen=True)
class DeepSchedule:
    """The least errors with equal and with unequal rates, one of each for every g and seed.

    levels: the number of levels (products of the two rates) with slopes down, even and up. equal_at_end,
    unequal_at_end: whether the best of each are on the smallest or the largest level, beyond which better ones may lie.
    """

    depth: int
    equal: tuple[float, ...]
    unequal: tuple[float, ...]
    examples: float | None
    levels: tuple[int, int, int]
    equal_at_end: bool
    unequal_at_end: bool

    @property
    def logs(self) -> list[float]:
        """The logarithms of the factors by which the errors with equal rates are larger."""
        pairs = zip(self.equal, self.unequal, strict=True)
        return [math.log(ratio(equal, unequal, self.examples)) for equal, unequal in pairs]

    @property
    def equal_suffice(self) -> bool:
        """Whether equal rates reach near-zero error."""
        return self.examples is not None and bool(np.mean(self.equal) <= NEAR_ZERO)

    @property
    def matters(self) -> bool | None:
        """Whether unequal rates are needed and at least halve the error; None if that is too close to call."""
        if self.equal_suffice:
            return False
        excess = float(np.mean(self.logs)) - math.log(GREAT_DEAL)
        error = float(np.std(self.logs, ddof=1)) / math.sqrt(len(self.logs))
        return None if abs(excess) < CERTAIN * error else excess >= 0

    @property
    def obstacle(self) -> str | None:
        """Why the runs are no fair comparison, None if they are."""
        if min(self.levels) < LEAST_LEVELS or self.levels[1] < max(self.levels):
            return f"{LEAST_LEVELS} levels of rates are needed for each slope, and no fewer with equal rates"
        if len(self.equal) < LEAST_PAIRS:
            return f"{LEAST_PAIRS} initial weights, common to all rates, are needed"
        return None

    @property
    def words(self) -> str:
        """Both errors, the mean over the initial weights, none where no such rates were run."""
        sides = (self.equal, self.unequal)
        means = (_short(float(np.mean(errors)), self.examples) if errors else "none" for errors in sides)
        return ", D = {}: {} with equal rates, {} with unequal".format(self.depth, *means)


def schedule_matters(tables: Tables) -> Finding:
    """Judge C11."""
    words, parts, obstacles = [], [], []
    for name in (name for name in PANELS if name in tables):
        deepest = _deepest_that_learned(name, tables[name])
        words.append(f"{figure_title(name)}{deepest.words if deepest else _NONE}")
        obstacle = too_small(tables[name], MNIST, TIMIT, TIMIT_SAMPLE)
        obstacle = obstacle or (deepest.obstacle if deepest else "nothing to compare")
        if obstacle:
            obstacles.append(f"{figure_title(name)}: {obstacle}")
        elif deepest:
            parts.append(_part(figure_title(name), deepest, tables[name]))
    return weighed("; ".join(words), None if parts else "; ".join(obstacles), lambda: parts)


C11 = Claim(
    name="C11",
    words="For very deep networks, varying the learning rates over depth is very important.",
    criterion="Holds: in each panel of Figure 4 that can tell, very deep nets have half the error or less with rates "
    "that differ over depth than with equal ones, and equal ones do not reach 1 % mistakes. In part: in some of the "
    "panels. Compared are the best of several levels of rates with the slopes down, even and up, from common initial "
    "weights; the factor is the geometric mean over these. What counts is the greatest depth of each panel at which "
    "some rates trained a net from Gaussian weights to half of a constant answer’s error or less, and which is at "
    "least as deep over width as the paper’s D = 32. Undecided: no panel has such a depth with 3 levels for each "
    "slope, no fewer with equal rates than with others, and 3 initial weights; within two standard errors of the "
    "factor 2; above it, but the best equal rates are on the smallest or the largest level of their grid; below it "
    "and equal ones do not reach 1 %, but the best unequal rates are on such a level, or the learning rates have not "
    "run down to a tenth.",
    figures=PANELS,
    judge=schedule_matters,
    errata=("E5",),
    in_paper=True,
)

_NONE = ": from Gaussian weights, no very deep net reached half of a constant answer’s error"


def _part(title: str, deepest: DeepSchedule, table: Table) -> Part:
    """Return whether the schedule matters in a panel."""
    matters = deepest.matters
    if matters is None:
        return Part(None, f"{title}: too close to call")
    if matters:
        reason = "the best equal rates are at the end of their grid" if deepest.equal_at_end else None
    elif deepest.equal_suffice:
        reason = None
    else:
        end = "the best unequal rates are at the end of their grid" if deepest.unequal_at_end else None
        reason = still_learning(table) or end
    return Part(None, f"{title}: {reason}") if reason else Part(matters)


def _deepest_that_learned(name: str, table: Table) -> DeepSchedule | None:
    """Return the least errors at the greatest depth at which some rates trained a very deep net, None if none did."""
    runs, matching = last_epochs(finished(table)), Matching.of(name, table)
    runs = runs[runs["weights"] == "gaussian"]
    for depth in reversed(unique(runs["depth"])):
        same = runs[runs["depth"] == depth]
        if matching.papers(depth) >= VERY_DEEP and least(same) <= SOMETHING_LEARNED * constant_error(runs):
            return _deep_schedule(int(depth), same)
    return None


def _deep_schedule(depth: int, runs: DataFrame) -> DeepSchedule:
    level, slope = runs["rate_in"] * runs["rate_out"], runs["rate_out"] / runs["rate_in"]
    even = np.isclose(slope, 1.0)
    counts = [len(set(level[chosen].round(12))) for chosen in (~even & (slope < 1), even, ~even & (slope > 1))]
    return DeepSchedule(
        depth=depth,
        equal=_least_by_weights(runs[even]),
        unequal=_least_by_weights(runs[~even]),
        examples=example_count(runs),
        levels=(counts[0], counts[1], counts[2]),
        equal_at_end=_best_at_end(runs[even]),
        unequal_at_end=_best_at_end(runs[~even]),
    )


def _least_by_weights(runs: DataFrame) -> tuple[float, ...]:
    """Return the least error for each g and seed, that of a constant answer if every run diverged."""
    errors = (least(members) for _, members in grouped(runs, "gain", "seed"))
    return tuple(constant_error(runs) if math.isnan(error) else error for error in errors)


def _best_at_end(runs: DataFrame) -> bool:
    """Return whether the rates of the least mean error are on the smallest or the largest level."""
    means = runs.groupby(["rate_in", "rate_out"])["train_error"].mean()
    if means.isna().all():
        return True
    levels = {pair: pair[0] * pair[1] for pair in means.index}
    best = levels[means.idxmin()]
    return any(math.isclose(best, end, rel_tol=0.01) for end in (min(levels.values()), max(levels.values())))


def _short(error: float, examples: float | None) -> str:
    return f"{error:.3f}" if examples is None else f"{100 * error:.2f} %"

"""C11, about learning rates that vary over depth in all panels of Figure 4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gradwalk.figures import Table
from gradwalk.figures.outcomes import (
    NEAR_ZERO,
    Schedule,
    averages,
    constant_error,
    dependable,
    example_count,
    finished,
    last_epochs,
    schedule,
    unique,
)
from gradwalk.report.claims.training import MNIST, TIMIT, TIMIT_SAMPLE, infinite_if_diverged, too_small
from gradwalk.report.finding import Claim, Finding, Tables, figure_title, graded, judged

if TYPE_CHECKING:
    from pandas import DataFrame

SOMETHING_LEARNED = 0.5  # of a constant answer's error: above this, no learning rate was suitable
GREAT_DEAL = 2.0  # the factor by which an error must be smaller
VERY_DEEP = 32  # the depth at which the paper reports "a huge difference"
PANELS = ("fig4a", "fig4b", "fig4c", "fig4d")


@dataclass(frozen=True)
class DeepSchedule:
    """The least errors at the greatest depth at which a very deep net learned, infinite if every run diverged."""

    depth: int
    errors: Schedule

    @property
    def matters(self) -> bool:
        """Whether unequal rates are needed and at least halve the error."""
        needed = self.errors.examples is None or self.errors.equal > NEAR_ZERO
        return needed and self.errors.ratio >= GREAT_DEAL


def schedule_matters(tables: Tables) -> Finding:
    """Judge C11."""
    words, parts, obstacle = [], [], None
    for name in PANELS:
        if name not in tables:
            continue
        deepest = _deepest_that_learned(tables[name])
        small = too_small(tables[name], MNIST, TIMIT, TIMIT_SAMPLE)
        words.append(f"{figure_title(name)}{_words(deepest)}")
        obstacle = obstacle or small or ("nothing to compare" if deepest is None else None)
        if deepest is not None and small is None:
            parts.append(deepest.matters)
    return judged("; ".join(words), None if parts else obstacle, lambda: graded(parts))


C11 = Claim(
    name="C11",
    words="For very deep networks, varying the learning rates over depth is very important.",
    criterion="Holds: in each panel of Figure 4, very deep nets have half the error or less with rates that differ "
    "over depth than with equal ones, and equal ones do not reach 1 % mistakes. In part: in some of the panels. What "
    "counts is the greatest depth of each panel that is at least 32 and at which some rates trained a net from "
    "Gaussian weights to half of a constant answer’s error or less. Undecided: no panel has one.",
    figures=PANELS,
    judge=schedule_matters,
    errata=("E5",),
    in_paper=True,
)


def _deepest_that_learned(table: Table) -> DeepSchedule | None:
    """Return the least errors at the greatest depth at which some rates trained a very deep net, None if none did."""
    runs = last_epochs(finished(table))
    runs = runs[runs["weights"] == "gaussian"]
    if runs.empty:
        return None
    points = dependable(averages(runs))
    for depth in reversed(unique(points["depth"])):
        deepest = DeepSchedule(int(depth), _errors(points[points["depth"] == depth], example_count(runs)))
        learned = min(deepest.errors.equal, deepest.errors.unequal) <= SOMETHING_LEARNED * constant_error(runs)
        if depth >= VERY_DEEP and learned:
            return deepest
    return None


def _errors(points: DataFrame, examples: float | None) -> Schedule:
    errors = schedule(points, examples)
    return Schedule(infinite_if_diverged(errors.equal), infinite_if_diverged(errors.unequal), examples)


def _words(deepest: DeepSchedule | None) -> str:
    if deepest is None:
        return (
            f": from Gaussian weights, no net of {VERY_DEEP} layers or more reached half of a constant answer’s error"
        )
    errors = deepest.errors
    equal, unequal = (_short(error, errors.examples) for error in (errors.equal, errors.unequal))
    return f", D = {deepest.depth}: {equal} with equal rates, {unequal} with unequal"


def _short(error: float, examples: float | None) -> str:
    if not np.isfinite(error):
        return "none"
    return f"{error:.3f}" if examples is None else f"{100 * error:.2f} %"

"""Errors with their uncertainty, and when one of them is lower than another.

A few mistakes more or less decide nothing, and neither do two networks without a mistake. So an error counts as lower
than another only if it is lower by more than a tenth, and by more than two standard errors of the difference.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

TIED = 1.1  # errors within this factor of each other are tied
CERTAIN = 2.0  # standard errors


@dataclass(frozen=True)
class Estimate:
    """An error, infinite if every run diverged, and its standard error."""

    error: float
    standard_error: float = 0.0

    def is_below(self, other: Estimate) -> bool:
        """Return whether this error is clearly lower.

        >>> Estimate(0.0011, 0.0003).is_below(Estimate(0.0022, 0.0005))  # 11 and 22 mistakes of 10,000
        False
        """
        if not math.isfinite(self.error):
            return False
        noise = CERTAIN * math.hypot(self.standard_error, other.standard_error)
        return other.error > TIED * self.error and other.error - self.error > noise


def estimate(error: float, examples: float | None, runs: float, over_seeds: float = 0.0) -> Estimate:
    """Return a mean error over so many runs as an estimate; NaN (every run diverged) is infinite.

    The standard error is that over the seeds, and at least that of the number of mistakes, which is taken as Poisson
    distributed. examples: that a share of mistakes refers to, None for an error that is not a share.

    >>> estimate(0.01, examples=10_000, runs=1)
    Estimate(error=0.01, standard_error=0.001)
    """
    if math.isnan(error):
        return Estimate(math.inf)
    counting = math.sqrt(error / (examples * runs)) if examples else 0.0
    return Estimate(error, max(counting, 0.0 if math.isnan(over_seeds) else over_seeds))


def lowest(estimates: Iterable[Estimate]) -> Estimate:
    """Return the estimate with the least error, an infinite one if there are none."""
    return min(estimates, key=lambda each: each.error, default=Estimate(math.inf))


def all_below(low: Collection[Estimate], high: Collection[Estimate]) -> bool | None:
    """Return whether all of the first errors are lower than all of the second; None if that is too close to call.

    >>> all_below([Estimate(0.1)], [Estimate(0.2), Estimate(0.3)]), all_below([Estimate(0.0)], [Estimate(0.0)])
    (True, None)
    """
    if any(other.is_below(each) for each in low for other in high):
        return False
    return True if all(each.is_below(other) for each in low for other in high) else None

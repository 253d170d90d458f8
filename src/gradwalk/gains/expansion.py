"""The unbiased gain of a chain of equal layers without sampling, from the expansion of the walk in 1 / width."""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gradwalk.blocks import Dense
from gradwalk.checks import Weights
from gradwalk.theory import chi
from gradwalk.theory.chain import Walk, mean_walk, walk
from gradwalk.theory.table import Table, table

LEAST_WIDTH = 10
_GRID = (-12, 6)  # of ln q, in units of its spacing, to begin with,
_LIMITS = (-44, 22)  # and as far as it is extended
_EXTENSION = 8
_OUTSIDE = 1e-4  # the expected number of layers outside the grid above which it is extended
_TRIALS = 40
_TOLERANCE = 1e-8  # of ln g
_GRID_ERROR = 3e-6  # of ln g, due to the grid
_SMALL = 1e-4  # the mean log-norm per layer at a root: far from one, an expansion that diverges has any slope


class Expanded(NamedTuple):
    """A gain from the expansion.

    Attributes:
        log_gain: ln g.
        slope: the derivative of the mean final log-norm with respect to ln g.
        error: an estimate of that of the mean final log-norm.
        spread: of the final log-norm.
    """

    log_gain: float
    slope: float
    error: float
    spread: float

    @property
    def log_error(self) -> float:
        """The error of ln g, that due to the grid included."""
        return math.hypot(self.error / self.slope, _GRID_ERROR)


@lru_cache(maxsize=1024)
def expanded_gain(layer: Dense, width: int, depth: int, weights: Weights) -> Expanded | None:
    """Return the gain at which the mean final log-norm is 0, or None where the expansion does not serve.

    It serves from a width of 10 on, where ln q stays within the largest grid and nearly every layer passes something.
    """
    low, high = _GRID
    while width >= LEAST_WIDTH and low >= _LIMITS[0] and high <= _LIMITS[1]:
        with np.errstate(all="ignore"):  # what is not finite ends in None
            solved = _on_grid(layer, width, depth, weights, low, high)
        if solved is None:
            return None
        gain, found = solved
        if max(found.below, found.above) < _OUTSIDE:
            return gain
        low -= _EXTENSION * (found.below >= _OUTSIDE)
        high += _EXTENSION * (found.above >= _OUTSIDE)
    return None


def _on_grid(
    layer: Dense, width: int, depth: int, weights: Weights, low: int, high: int
) -> tuple[Expanded, Walk] | None:
    """Return the gain with the variance of the signal on this grid, and the walk at it."""
    grid = table(layer.activation, width, layer.dropout, weights, low, high)
    root = None if grid is None else _root(grid, _guess(layer), depth)
    if grid is None or root is None:
        return None
    found = walk(grid, root.log_gain, depth)
    finite = all(map(math.isfinite, found))
    return (Expanded(root.log_gain, root.slope, found.error, found.spread), found) if finite else None


def _guess(layer: Dense) -> float:
    """Return ln of the gain at which |delta|^2 keeps its size in the limit of infinite width at q = 1."""
    return -0.5 * math.log(chi(layer.activation, 1.0) / (1 - layer.dropout))


class _Root(NamedTuple):
    log_gain: float
    slope: float


def _root(grid: Table, start: float, depth: int) -> _Root | None:
    """Return where the mean final log-norm is 0, by the secant method."""
    before, value_before = start, mean_walk(grid, start, depth)
    at = before - math.copysign(min(abs(value_before / depth), 0.2), value_before)
    for _ in range(_TRIALS):
        value = mean_walk(grid, at, depth)
        slope = (value - value_before) / (at - before) if at != before else math.nan
        if not slope > 0:
            return None
        if abs(value / slope) < _TOLERANCE and abs(value / depth) < _SMALL:
            return _Root(at, slope)
        before, value_before = at, value
        at -= math.copysign(min(abs(value / slope), 0.3), value)
        if abs(at - start) > 3:
            return None
    return None

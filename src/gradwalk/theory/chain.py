"""Mean and spread of the walk of a deep chain of equal layers, by a recursion over its layers: nothing is sampled.

Forward, ln q is a Markov chain on a grid, whose steps have the exact first three moments. Backward, the law of the
overlap at layer d is a function of q_d, and so are mean and variance of the log-norm that the layers above d add: each
follows from that of the layer above. See `layer` for what one layer does, to second order in 1 / width.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gradwalk.activations import Array
from gradwalk.theory.stencils import interpolation, linear_interpolation
from gradwalk.theory.table import SPACING, Table

_POINTS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_SETTLED = 1e-9  # the change of a law from one layer to the next, below which it counts as settled,
_STILL = 1e-6  # and that of the growth, where the spread is computed
_PAUSE = 8  # layers between two looks


class Walk(NamedTuple):
    """The walk of a chain at some gain.

    Attributes:
        mean: of the final log-norm.
        spread: its standard deviation.
        below, above: the expected number of layers at which q is below or above the grid.
        error: an estimate of what the expansion leaves out of the mean.
    """

    mean: float
    spread: float
    below: float
    above: float
    error: float


@dataclass(frozen=True, eq=False)
class Operators:
    """What takes functions of q one layer down: E[F(q') | q], as matrices.

    Attributes:
        values: the values at the quadrature points of q', one block of rows per row of the grid, for functions that
            grow linearly beyond the grid.
        linear: their means.
        constant: the means for functions that are constant beyond the grid.
        positive: the same by linear interpolation, so that no entry is negative: for what must not cancel.
        growth_law, overlap_law: the same for the law of the overlap, as growth and overlap below depend on it.
        deviations: ln q' less its mean at the quadrature points.
        below, above: the probability that q' is below or above the grid.
    """

    values: Array
    linear: Array
    constant: Array
    positive: Array
    growth_law: Array
    overlap_law: Array
    deviations: Array
    below: Array
    above: Array


def operators(table: Table, log_gain: float) -> Operators:
    """Return the operators at a gain."""
    count, deviation = len(table.log_q), np.sqrt(table.variance)
    skewness = np.clip(table.third / np.maximum(deviation, 1e-5) ** 3, -1.0, 1.0)
    noise = deviation[:, None] * (_POINTS + skewness[:, None] / 6 * (_POINTS**2 - 1))
    at = (2 * log_gain + table.mean[:, None] + noise - table.log_q[0]) / SPACING
    inside = np.clip(at, 0, count - 1).ravel()
    values = interpolation(inside, count)
    constant, positive = _mean(values), _mean(linear_interpolation(inside, count))
    beyond = at.reshape(-1, 1) - inside[:, None]
    values[:, :2] += np.minimum(beyond, 0) * (-1, 1)
    values[:, -2:] += np.maximum(beyond, 0) * (-1, 1)
    shifted = (np.clip(at + lag[:, None] / SPACING, 0, count - 1) for lag in table.lags)
    growth_law, overlap_law = (_mean(interpolation(positions.ravel(), count)) for positions in shifted)
    below, above = (at < 0) @ _WEIGHTS, (at > count - 1) @ _WEIGHTS
    return Operators(values, _mean(values), constant, positive, growth_law, overlap_law, noise, below, above)


def _mean(values: Array) -> Array:
    """Return the means over the quadrature points, from one row per row of the grid and point."""
    return np.asarray(_WEIGHTS @ values.reshape(-1, len(_WEIGHTS), values.shape[1]))


def mean_walk(table: Table, log_gain: float, depth: int) -> float:
    """Return the mean of the final log-norm."""
    by = operators(table, log_gain)
    law: Array = table.fresh
    mean: Array = np.zeros(len(table.log_q))
    for done in range(depth):
        growth = _growth(table, by, law, log_gain)
        mean = growth + by.linear @ mean
        before, law = law, _lower(table, by, law)
        if done % _PAUSE == 0 and np.abs(law - before).max() < _SETTLED:
            mean = _repeated(by.linear, growth, mean, depth - done - 1)
            break
    return table.at_start(mean)


def walk(table: Table, log_gain: float, depth: int) -> Walk:
    """Return the walk at a gain, with its spread."""
    by = operators(table, log_gain)
    law: Array = table.fresh
    mean: Array = np.zeros(len(table.log_q))
    sums: Array = np.zeros((len(mean), 3))  # variance, layers below, layers above
    error: Array = np.zeros(len(mean))
    regression = table.covariance / np.maximum(table.variance, 1e-12)
    for done in range(depth):
        variance = table.step_variance / 4 + _variance(by, mean, regression)
        terms, left_out = np.stack([variance, by.below, by.above], axis=1), _left_out(table, law)
        sums, error = terms + by.constant @ sums, left_out + by.positive @ error
        before = law, mean
        law, mean = _lower(table, by, law), _growth(table, by, law, log_gain) + by.linear @ mean
        if done % _PAUSE == 0 and np.abs(law - before[0]).max() < _STILL and np.ptp(mean - before[1]) < _STILL:
            sums = _repeated(by.constant, terms, sums, depth - done - 1)
            error = _repeated(by.positive, left_out, error, depth - done - 1)
            mean = mean + (depth - done - 1) * (mean - before[1]).mean()
            break
    square, below, above = (table.at_start(values) for values in sums.T)
    spread = math.sqrt(max(square + table.start_variance(mean), 0.0))
    return Walk(table.at_start(mean), spread, below, above, table.most_at_start(error))


def _growth(table: Table, by: Operators, law: Array, log_gain: float) -> Array:
    """Return the mean growth of the log-norm at a layer, given the law of the overlap above."""
    return np.asarray(log_gain + 0.5 * (table.drift + np.vecdot(table.growth, by.growth_law @ law)))


def _lower(table: Table, by: Operators, law: Array) -> Array:
    """Return the law of the overlap at a layer, given that above."""
    return np.asarray(np.matmul(table.kernel, (by.overlap_law @ law)[:, :, None])[:, :, 0])


def _left_out(table: Table, law: Array) -> Array:
    """Return about what the expansion leaves out of the growth at a layer; results/gains.md shows how well that holds.

    Terms of third order in 1 / width, which vanish with the variances of ln q' and ln z, and those of second order
    where the gradient turns towards the signal: there E[o^2] exceeds 1, and the law of o is far from normal. Where it
    is negative, the recursion of the law has diverged, as it does from very large values. No term is negative.
    """
    third = np.abs(table.variance) ** 3 / 8 + np.minimum(table.step_variance * table.width, 1.0) * table.width**-3.0
    square = law @ table.squares
    aligned = np.maximum(np.maximum(square - 1, -square), 0.0)
    return np.asarray(third + 0.15 * aligned * (1 + aligned**2) / table.width)


def _variance(by: Operators, mean: Array, regression: Array) -> Array:
    """Return what the variance of q' adds to that of the log-norm, with its covariance with the step."""
    values = (by.values @ mean).reshape(by.deviations.shape)
    values = values - (values @ _WEIGHTS)[:, None]
    return np.asarray((values**2) @ _WEIGHTS + regression * ((by.deviations * values) @ _WEIGHTS))


def _repeated(matrix: Array, term: Array, values: Array, times: int) -> Array:
    """Return values after x -> term + matrix x, this many times, by squaring."""
    while times:
        if times % 2:
            values = term + matrix @ values
        term, matrix, times = term + matrix @ term, matrix @ matrix, times // 2
    return values

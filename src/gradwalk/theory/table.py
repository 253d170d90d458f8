"""What one layer does, on a grid of the variance of its pre-activations: Gaussian weights, or orthogonal ones.

The pre-activations of a layer with orthogonal weights have a given length. A standard normal x is such a vector times
a random length, so that what is known for a standard normal x at q is a mean over q times the square of that length of
what is wanted. The mean is inverted by an expansion in derivatives with respect to ln q.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy

from gradwalk.activations import Activation, Array
from gradwalk.checks import Weights
from gradwalk.theory import overlap
from gradwalk.theory.layer import LayerRow, layer_row
from gradwalk.theory.stencils import derivative

SPACING = 0.5  # of the grid, in ln q
_ROUNDING = 1e-7  # of eigenvalues
_GROWTH = 1e-3  # of E[o^2] over one layer, above which the overlap counts as growing by itself


class Length(NamedTuple):
    """The cumulants of ln(|x|^2 / N) for a standard normal x; all 0 where the length of x plays no role."""

    mean: float = 0.0
    variance: float = 0.0
    third: float = 0.0


_NO_LENGTH = Length()


@dataclass(frozen=True, eq=False)
class Table:
    """One layer at gain 1 on a grid of ln q; see `LayerRow`. One row per point of the grid.

    Attributes:
        width: the number of units.
        log_q: the grid.
        mean, variance, third: moments of ln q'.
        drift, step_variance, covariance: of ln z.
        growth, kernel: by the nodes of the overlap above.
        lags: by how much higher ln q' counts for the overlap above, in the growth and in the kernel.
        squares, fresh: the nodes of the overlap, and its law at the last layer.
        derivative: the matrix of d / d ln q.
        length: that of the first layer's x, which is standard normal.
    """

    width: int
    log_q: Array
    mean: Array
    variance: Array
    third: Array
    drift: Array
    step_variance: Array
    covariance: Array
    growth: Array
    kernel: Array
    lags: Array
    squares: Array
    fresh: Array
    derivative: Array
    length: Length = _NO_LENGTH

    def at_start(self, values: Array) -> float:
        """Return the value of a function of ln q at layer 0, where q is 1 and x is standard normal."""
        slope, curvature = self.derivative @ values, self.derivative @ (self.derivative @ values)
        second = (self.length.mean**2 + self.length.variance) / 2
        return float((values + self.length.mean * slope + second * curvature)[self._start])

    def most_at_start(self, values: Array) -> float:
        """Return the same of a positive function, and no less than its value at q = 1."""
        return max(self.at_start(values), float(values[self._start]))

    def start_variance(self, mean: Array) -> float:
        """Return the variance over networks of the mean, a function of ln q, due to the length of the first x."""
        slope = float((self.derivative @ mean)[self._start])
        return self.length.variance * slope * slope  # not squared by **, which raises an error where it overflows

    @property
    def _start(self) -> int:
        return int(np.abs(self.log_q).argmin())


def table(activation: Activation, width: int, dropout: float, weights: Weights, low: int, high: int) -> Table | None:
    """Return a layer on the grid from `low` to `high` times the spacing, or as much of it as the expansion serves.

    None if that is too little.
    """
    places, rows = [], []
    for place in sorted(range(low, high + 1), key=abs):
        row = layer_row(activation, width, dropout, weights, SPACING * place)
        if row is not None and (place == 0 or place - int(math.copysign(1, place)) in places):
            places.append(place)
            rows.append(row)
    if len(places) < 8:
        return None
    order = np.argsort(places)
    gaussian = _stacked(
        width, [rows[k] for k in order], SPACING * np.array(places)[order], overlap.nodes(weights, width)
    )
    if weights == "gaussian":
        return replace(gaussian, kernel=_kernel(gaussian, weights, width))
    return _orthogonal(gaussian, width)


def _stacked(width: int, rows: list[LayerRow], log_q: Array, nodes: overlap.Nodes) -> Table:
    """Return the rows as a table, with the moments of the overlap in the place of its kernel."""
    forward, step = (np.array([row[k] for row in rows]) for k in (0, 1))
    responses = np.array([(row.growth_response, row.overlap_response) for row in rows])
    lags = responses[:, :, 1] / np.where(np.abs(responses[:, :, 0]) > 1e-12, responses[:, :, 0], np.inf)
    return Table(
        width=width,
        log_q=log_q,
        mean=forward[:, 0],
        variance=forward[:, 1],
        third=forward[:, 2],
        drift=step[:, 0],
        step_variance=step[:, 1],
        covariance=np.array([row.covariance for row in rows]),
        growth=np.array([row.growth for row in rows]),
        kernel=np.array([row.moments for row in rows]),
        lags=lags.T,
        squares=nodes.squares,
        fresh=np.tile(nodes.fresh, (len(rows), 1)),
        derivative=derivative(len(rows)) / SPACING,
    )


def _kernel(moments: Table, weights: Weights, width: int) -> Array:
    """Return the matrices that take the law of the overlap above to that of a layer."""
    return np.asarray(overlap.nodes(weights, width).from_moments @ np.swapaxes(moments.kernel, 1, 2))


def _bounded(kernel: Array, squares: Array) -> Array:
    """Return kernels whose eigenvalues are at most 1 in magnitude, where the overlap does not grow by itself.

    Errors of high moments make some exceed 1, and laws would grow over thousands of layers.
    """
    second = squares @ kernel
    response = (second[:, 1] - second[:, 0]) / (squares[1] - squares[0])
    values, vectors = np.linalg.eig(kernel)
    growing = (np.abs(values).max(axis=1) > 1 + _ROUNDING) & (response < 1 + _GROWTH)
    shrunk = values[growing] / np.maximum(np.abs(values[growing]), 1.0)
    bounded = kernel.copy()
    bounded[growing] = (vectors[growing] * shrunk[:, None, :] @ np.linalg.inv(vectors[growing])).real
    return bounded


def _orthogonal(gaussian: Table, width: int) -> Table:
    """Return the table of orthogonal weights from that of Gaussian ones, whose kernel still holds moments."""
    d, length = gaussian.derivative, _length(width)
    mean, drift = (_at_length(values, length, d) for values in (gaussian.mean, gaussian.drift))
    variance, step_variance, covariance = (
        _at_length(values - _by_length(one, other, length, d), length, d)
        for values, one, other in (
            (gaussian.variance, mean, mean),
            (gaussian.step_variance, drift, drift),
            (gaussian.covariance, mean, drift),
        )
    )
    slope, curvature = d @ mean, d @ (d @ mean)
    third = 3 * length.variance * (d @ variance) * slope + length.third * slope**3
    third = gaussian.third - third - 3 * length.variance**2 * slope**2 * curvature
    norm = scipy.special.digamma((width - 1) / 2) + math.log(2) - np.log(width - gaussian.squares)
    return replace(
        gaussian,
        mean=mean,
        variance=np.maximum(variance, 1e-12),
        third=_at_length(third, length, d),
        drift=np.zeros_like(mean),
        step_variance=np.maximum(step_variance - length.variance, 0.0),
        covariance=covariance,
        growth=_at_length(gaussian.drift[:, None] + gaussian.growth, length, d) - norm,
        kernel=_sphere_kernel(gaussian, width),
        lags=gaussian.lags - _length_lags(gaussian, length),
        length=length,
    )


def _by_length(one: Array, other: Array, length: Length, d: Array) -> Array:
    """Return the covariance of two functions of ln q due to the length of x, to second order."""
    first, second = (d @ one, d @ other), (d @ (d @ one), d @ (d @ other))
    skewed = first[0] * second[1] + second[0] * first[1]
    return np.asarray(
        length.variance * first[0] * first[1]
        + length.third / 2 * skewed
        + length.variance**2 / 2 * second[0] * second[1]
    )


def _length_lags(gaussian: Table, length: Length) -> Array:
    """Return by how much the lags are smaller if the length of x, which growth and overlap depend on, is given."""
    responses = np.stack([np.diff(gaussian.growth[:, :2])[:, 0], np.diff(gaussian.kernel[:, :2, 1])[:, 0]])
    d = gaussian.derivative
    return np.asarray(length.variance * (np.log(np.abs(responses)) @ d.T) * (d @ gaussian.mean))


def _sphere_kernel(gaussian: Table, width: int) -> Array:
    """Return the kernel of the overlap for an x of given length, which enters the k-th moment to the power 2 k."""
    moments = np.stack(
        [_at_length(gaussian.kernel[:, :, k], _length(width, k), gaussian.derivative) for k in range(overlap.NODES)],
        axis=2,
    )
    kernel = _kernel(replace(gaussian, kernel=moments * overlap.sphere_factors(width)), "orthogonal", width)
    return _bounded(kernel, gaussian.squares)


def _length(width: int, power: int = 0) -> Length:
    """Return the cumulants, weighted with that power of |x|^2."""
    half = width / 2 + power
    return Length(
        float(scipy.special.digamma(half)) - math.log(width / 2),
        float(scipy.special.polygamma(1, half)),
        float(scipy.special.polygamma(2, half)),
    )


def _at_length(values: Array, length: Length, d: Array) -> Array:
    """Return the function of ln q of which `values` is the mean over the length of x, to second order."""
    mean, variance, third = length
    first = d @ values
    second = d @ first
    cube = d @ second
    result = values - mean * first + (mean**2 - variance) / 2 * second
    return np.asarray(result + (mean * variance / 2 - third / 6) * cube + variance**2 / 8 * (d @ cube))

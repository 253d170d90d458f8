"""Walks without vectors, O(1) per layer: the exact sampler for f(a) = a on one side of 0 and s a on the other.

That is linear, relu and leaky_relu, up to a factor. The signs of the pre-activations are fair coins, which split the N
units of a layer into M ~ Binomial(N, 1/2) and N - M. All that the recursion of `exact` needs of its vectors x and xi
are their lengths and scalar products in each group. With e = (|x_1|, s |x_2|) / |h|, |x_1|^2 ~ chi2_M and
|x_2|^2 ~ chi2_(N-M), the part of xi orthogonal to h is t (-e_2, e_1) in the plane of x_1 and x_2, t standard normal,
and otherwise of squared lengths r_1 ~ chi2_(M-1) and r_2 ~ chi2_(N-M-1). So, with the overlap o = a . delta / |a|,
    |f'(a) W^T delta|^2 N / |delta|^2 = (o e_1 - t e_2)^2 + r_1 + s^2 ((o e_2 + t e_1)^2 + r_2),
and walks have the law of `exact`, including the correlation between the passes.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gradwalk.activations import Activation, Array, Indices
from gradwalk.checks import Weights
from gradwalk.simulation.normals import log_chi2_mean
from gradwalk.simulation.tracks import Tracks

_PROBES = np.geomspace(1e-13, 1e12, 600)  # beyond the scales at which `signal` evaluates f
_NUMBERS = 16384  # per array
_LOOKED_UP = 4096  # numbers of units up to which a digamma function is computed once
_FEW_UNITS = 256  # up to which a binomial number is faster by counting bits


class Sides(NamedTuple):
    """A neutral activation: its slope is exp(log_slope) on the steeper side of 0, `ratio` times that on the other."""

    log_slope: float
    ratio: float


@lru_cache(maxsize=1024)
def sides(activation: Activation) -> Sides | None:
    """Return both slopes of a neutral activation, or None if f is not linear on either side of 0, or constant.

    >>> from gradwalk import activation
    >>> sides(activation("leaky_relu(0.2)")), sides(activation("tanh"))
    (Sides(log_slope=0.0, ratio=0.2), None)
    """
    if not set(activation.kinks) <= {0.0}:
        return None
    slopes = [_slope(activation, sign) for sign in (1.0, -1.0)]
    gentle, steep = sorted(slopes, key=abs)
    return Sides(math.log(abs(steep)), gentle / steep) if steep and np.isfinite(slopes).all() else None


def _slope(activation: Activation, sign: float) -> float:
    """Return the slope of f on that side of 0, NaN if it has more than one."""
    a = sign * _PROBES
    with np.errstate(all="ignore"):
        chords, slopes = np.asarray(activation.f(a)) / a, np.asarray(activation.derivative(a))
    slope = float(slopes[0])
    return slope if np.allclose([chords, slopes], slope, rtol=1e-9, atol=0) else math.nan


class Layers(NamedTuple):
    """Some layers of a block, from the top down, one column per walk.

    `length` is that of f(a) at unit scale and slope. Of xi, `across` is the squared length of the part orthogonal to h;
    behind the layer, |delta|^2 is `constant` + 2 `linear` o + `quadratic` o^2.
    """

    length: Array
    across: Array
    constant: Array
    linear: Array
    quadratic: Array


class NeutralNetworks:
    """A block of networks of a neutral activation, drawn from the top down: nothing waits for the backward pass.

    For Gaussian weights `luck` holds the control variates of `ExactSampler`, without the units of slope 0.
    """

    def __init__(
        self,
        slopes: Sides,
        weights: Weights,
        widths: tuple[int, ...],
        gains: Array,
        seed: np.random.SeedSequence,
        advance: Callable[[int], None],
    ) -> None:
        self.slopes, self.orthogonal, self.widths = slopes, weights == "orthogonal", np.array(widths)
        self.log_factors, self.advance = np.log(gains) + slopes.log_slope, advance
        self.luck: Array | float = 0.0
        self._half = slopes.ratio == 0 and not self.orthogonal  # units of slope 0 need not be drawn
        self._resampled, self._rng = 0, np.random.Generator(np.random.SFC64(seed))

    def walk(self, tracks: Tracks) -> int:
        """Fill the rows of this block, and return how many layers were resampled."""
        log_norm, log_variance, column = tracks.log_norm, tracks.log_variance, tracks.column
        walks = len(log_norm)
        log_norm[:, 0] = log_variance[:, 0] = 0.0
        total, log_scale, overlap = np.zeros(walks), np.zeros(walks), self._top(walks)
        for part in self._parts(walks):
            layers = self._draw(part, walks)
            overlap, growth = self._backward(part, overlap, layers)
            norms = total + np.cumsum(growth + self.log_factors[part, None], axis=0)
            below = np.log(layers.length) - 0.5 * np.log(self.widths[part, None]) + self.log_factors[part, None]
            scales = log_scale - np.cumsum(below, axis=0)
            for index, d in enumerate(part.tolist()):
                if d in column:
                    log_norm[:, column[d]], log_variance[:, column[d]] = norms[index], 2 * scales[index]
            total, log_scale = norms[-1], scales[-1]
            self.advance(len(part))
        log_variance -= 2 * log_scale[:, None]  # so that layer 0 has unit variance
        return self._resampled

    def _parts(self, walks: int) -> list[Indices]:
        """Return layers D - 1 to 0 in parts: enough numbers per call of NumPy, and few enough for the cache."""
        depth = len(self.log_factors)
        return np.array_split(np.arange(depth)[::-1], -(-depth * walks // _NUMBERS))

    def _top(self, walks: int) -> Array:
        """Return a . delta / |delta| at layer D at unit scale, for a random delta."""
        overlap = self._rng.standard_normal(walks)
        if self.orthogonal:
            n = int(self.widths[-2:].max())
            overlap *= math.sqrt(n) / np.sqrt(overlap**2 + self._chi2(np.full(walks, n - 1)))
        return overlap

    def _draw(self, part: Indices, walks: int) -> Layers:
        ratio, n = self.slopes.ratio, self.widths[part, None]
        first = np.stack([self._units(int(width), walks) for width in n[:, 0]])
        if self._half:
            return self._one_side(first)
        units = np.stack([first, n - first])
        x = self._chi2(units)
        alone = ratio == 0  # then t does not matter, and counts as part of r_2
        r = self._chi2(np.maximum(units - np.array([1, not alone])[:, None, None], 0))
        t = np.zeros(first.shape) if alone else self._rng.standard_normal(first.shape) * (units > 0).all(axis=0)
        across = t**2 + r[0] + r[1]
        if self.orthogonal:
            x *= self._on_the_sphere(part, x[0] + x[1])
        else:
            self._account(log_chi2_mean(n), x[0] + x[1], across)
        length = np.sqrt(x[0] + ratio**2 * x[1])
        e, e2 = np.sqrt(x[0]) / length, ratio * np.sqrt(x[1]) / length
        return Layers(
            length,
            across,
            constant=t**2 * (e2**2 + ratio**2 * e**2) + r[0] + ratio**2 * r[1],
            linear=t * e * e2 * (ratio**2 - 1),
            quadratic=e**2 + ratio**2 * e2**2,
        )

    def _one_side(self, units: Array) -> Layers:
        """Return layers of which only the units on the steeper side are drawn."""
        squared, rest = self._chi2(units), self._chi2(units - 1)
        self._account(_log_chi2_mean_of_units(units), squared, rest)
        none, whole = (np.broadcast_to(value, units.shape) for value in (0.0, 1.0))
        return Layers(np.sqrt(squared), rest, rest, none, whole)

    def _units(self, n: int, walks: int) -> Array:
        """Return how many units of a layer are on the steeper side, at least one if the other side is flat."""
        if abs(self.slopes.ratio) == 1:
            return np.full(walks, float(n))  # the sides do not differ
        units = self._binomial(n, walks)
        while self.slopes.ratio == 0 and not units.all():
            inactive = np.flatnonzero(units == 0)
            self._resampled += inactive.size
            units[inactive] = self._binomial(n, inactive.size)
        return units

    def _account(self, expected: Array, squared: Array, across: Array) -> None:
        """Add the layers to `luck`: ln |x|^2 and ln |xi|^2, less their expectations."""
        xi = across + self._rng.standard_normal(across.shape) ** 2
        self.luck += (np.log([squared, xi]) - expected).sum(axis=1).T

    def _on_the_sphere(self, part: Indices, squared: Array) -> Array:
        """Return the factor that makes x the image of a vector under a Haar matrix: see `haar.image`."""
        n, below = self.widths[part], self.widths[np.maximum(part - 1, 0)]
        missing = np.broadcast_to(np.maximum(below - n, 0)[:, None], squared.shape)
        factor: Array = np.maximum(n, below)[:, None] / (squared + self._chi2(missing))
        factor[part == 0] = 1.0
        return factor

    def _backward(self, part: Indices, overlap: Array, layers: Layers) -> tuple[Array, Array]:
        """Return the overlap at the lowest of these layers, and ln of the growth of |delta| in each at gain 1."""
        n, above = self.widths[part], self.widths[part + 1]
        squared = np.empty(layers.length.shape)
        for index, (length, across, constant, linear, quadratic) in enumerate(zip(*layers, strict=True)):
            scale: Array | float = 1.0
            if self.orthogonal:
                overlap, scale = self._turned(int(n[index]), int(above[index]), overlap, across)
            squared[index] = (constant * scale + 2 * linear * overlap) * scale + quadratic * overlap**2
            overlap = overlap * length / np.sqrt(squared[index])
        passed = np.maximum(above / n, 1.0) if self.orthogonal else 1 / n
        return overlap, 0.5 * np.log(squared * passed[:, None])

    def _turned(self, n: int, above: int, overlap: Array, across: Array) -> tuple[Array, Array]:
        """Return the length of W^T u along h for a unit vector u and a Haar matrix, and the factor on what is across.

        See `haar.transposed`.
        """
        cosine = overlap / math.sqrt(max(n, above))
        rest = np.maximum(1 - cosine**2, 0.0)
        if 1 < n < above:
            rest *= self._rng.beta((n - 1) / 2, (above - n) / 2, len(rest))
        return cosine, np.sqrt(rest / across) if n > 1 else np.zeros(len(rest))

    def _chi2(self, freedom: Array | Indices) -> Array:
        return 2 * np.asarray(self._rng.standard_gamma(freedom / 2))

    def _binomial(self, n: int, walks: int) -> Array:
        """Return how many of n fair coins show heads."""
        if n > _FEW_UNITS:
            return self._rng.binomial(n, 0.5, walks).astype(np.float64)
        words = self._rng.bit_generator.random_raw((-(-n // 64), walks))
        words[0] >>= np.uint64(-n % 64)
        return np.asarray(np.bitwise_count(words).sum(axis=0, dtype=np.float64))


def _log_chi2_mean_of_units(units: Array) -> Array:
    """Return `log_chi2_mean` of many whole numbers, looked up where all are small: most of them are alike."""
    return _looked_up()[units.astype(np.intp)] if units.max() < _LOOKED_UP else log_chi2_mean(units)


@lru_cache(maxsize=1)
def _looked_up() -> Array:
    return log_chi2_mean(np.arange(_LOOKED_UP))

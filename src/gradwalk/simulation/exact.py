"""The exact sampler: the joint law of a random network's forward and backward pass, in O(width) per layer.

A Gaussian matrix W enters twice. Forward, W h has independent components of variance |h|^2 / N. Backward, given
a = g W h, the part of W that acts on h is known and the rest is an independent Gaussian matrix. It takes orthonormal
vectors u_j back as
    W^T u_j = h (a . u_j) / (g |h|^2) + (I - h h^T / |h|^2) xi_j / sqrt(N),   xi_j independent, standard normal.
A Haar orthogonal matrix preserves norms: W h is uniform on a sphere, and so is the part of W^T u orthogonal to h.
Both are exact in law, including the correlation between the passes. Components are drawn in single precision and
log-norms are accumulated in double; the rounding error of a step, about 1e-7, is far below its spread.

The vectors of a layer are needed only while it is drawn. Whatever gradients arrive from above, those below the layer
are combinations of f'(a) h and the f'(a) xi_j, and what the layer below has to know of them is their scalar products
with one another and with a. So the xi_j are drawn on the way forward, and a few numbers per walk wait for the way back.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np

from gradwalk.activations import Array, Indices
from gradwalk.simulation import haar
from gradwalk.simulation.chain import Chain
from gradwalk.simulation.frames import Frame, Turn
from gradwalk.simulation.gram import gram, nearly_dependent, pairs, places, solved, triangular
from gradwalk.simulation.normals import dot, dots, log_chi2_mean_of
from gradwalk.simulation.signal import Length, next_log_scale

# With a single active unit, delta is its component along h alone, which single precision cancels to 0 in about one
# such layer in 1e7; this bound keeps its logarithm finite.
_LEAST = 1e-10


class Scalars(NamedTuple):
    """Scalar products of the vectors of a layer, the walk last; `passed` are f'(a) h, f'(a) xi_1, f'(a) xi_2 and so on.

    x, h: of x and of h with itself. inside: of h with the xi_j. noise: of the xi_j with one another. passed: of the
    passed vectors with one another. overlap: of x with these.
    """

    x: Array
    h: Array
    inside: Array
    noise: Array
    passed: Array
    overlap: Array

    @property
    def across(self) -> Array:
        """Of the parts of the xi_j across h with one another."""
        return np.asarray(self.noise - self.inside[:, None] * self.inside / self.h)

    def refine(self, x: Array, h: Array, slope: Array, noise: Array) -> None:
        """Bring them to about the precision of the vectors, also where combinations of these may nearly cancel.

        There they are computed in double precision, with the parts of the xi_j across h in place of the xi_j.
        """
        walks = nearly_dependent(self.passed)
        if walks.size:
            x, h, slope, noise = (vector[..., walks, :].astype(np.float64) for vector in (x, h, slope, noise))
            noise -= h * (dot(h, noise) / dot(h, h))[..., None]
            for values, precise in zip(self, self.of(x, h, slope, noise), strict=True):
                values[..., walks] = precise

    @classmethod
    def of(cls, x: Array, h: Array, slope: Array, noise: Array) -> "Scalars":
        """Return the scalar products."""
        passed = np.empty((1 + len(noise), *h.shape), dtype=h.dtype)
        np.multiply(h, slope, out=passed[0])
        np.multiply(noise, slope, out=passed[1:])
        count = len(noise)
        products = dots([x, h, *noise, *passed], _wanted(count))
        inside, overlap, others = products[2:][:count], products[2 + count :][: count + 1], products[3 + 2 * count :]
        among = others[places(count)] if count > 1 else others[:1, None]
        return cls(products[0], products[1], inside, among, others[len(pairs(count)) :][places(count + 1)], overlap)


@cache
def _wanted(count: int) -> list[tuple[int, int]]:
    """Return the pairs among x, h, the xi_j and the passed vectors whose scalar products are `Scalars`, in order."""
    noise, passed = range(2, 2 + count), range(2 + count, 3 + 2 * count)
    known = [(0, 0), (1, 1), *((1, j) for j in noise), *((0, j) for j in passed)]
    return known + [(each[i], each[j]) for each in (noise, passed) for i, j in pairs(len(each))]


class ReducedLayer(NamedTuple):
    """What is left of a layer for the backward pass, where a is exp(log_scale) x.

    The slopes in `scalars` lack the factor exp(log_slope). log_lengths: ln |x|^2 and ln |xi_1|^2 (walk, vector).
    """

    log_scale: Array
    output: Length
    resampled: int
    scalars: Scalars
    log_slope: Array
    log_lengths: Array


class ReducedFrames(Chain):
    """Draws the layers of a block of walks of a chain, and turns a frame of a few gradients. See `FrameSampler`."""

    size: ClassVar[int]
    block_factor: ClassVar[float] = 1.0
    kept_bytes: ClassVar[int | None] = 200

    @classmethod
    def layer_bytes(cls, width_in: int, width_out: int) -> int:
        """Return how many bytes of one layer of one walk are in use while it is drawn."""
        return 12 * width_out + 4 * (cls.size - 1) * width_out

    def first(self, walks: int, width: int) -> ReducedLayer:
        """Return layer 0, whose pre-activations are independent with unit variance."""
        return self._layer(lambda rows: self._forward.draw(len(rows), width), np.zeros(walks))

    def forward(self, below: Length, width: int, gain: float) -> ReducedLayer:
        """Return the layer above `below`, with pre-activations a = g W h (eq. 1)."""
        return self._layer(lambda rows: self._image(len(rows), width, below.width), next_log_scale(below, gain))

    def random(self, below: Length, width: int, gain: float) -> tuple[Array, Frame, Array]:
        """Return ln of the scale of the last layer, a frame of random gradients there, and their triangular factor."""
        walks = len(below.log_norm)
        x, vectors = self._image(walks, width, below.width), self._noise(walks, width)
        factor = triangular(gram(vectors))
        return next_log_scale(below, gain), Frame(solved(factor, dot(x, vectors)), width), factor

    def turned(self, frame: Frame, layer: ReducedLayer) -> tuple[Frame, Turn]:
        """Return the frame at `layer`, one layer down, and what turned it, at gain 1."""
        width, scalars = layer.output.width, layer.scalars
        if self.orthogonal:
            along, mix = haar.transposed_parts(self._backward, scalars.across, frame.overlap, width, frame.width)
            log_factor = haar.log_factor(width, frame.width)
        else:
            along, mix, log_factor = frame.overlap, None, -0.5 * math.log(width)
        known = along / np.sqrt(scalars.h) - _mixed(scalars.inside / scalars.h, mix)
        with_passed = scalars.passed[:, :1] * known + _mixed(scalars.passed[:, 1:], mix)
        products = known[:, None] * with_passed[0] + _mixed(with_passed[1:], mix, axis=0)
        factor = triangular(products)
        overlap = solved(factor, scalars.overlap[0] * known + _mixed(scalars.overlap[1:], mix))
        return Frame(overlap, width), Turn(factor, log_factor + layer.log_slope)

    def _noise(self, walks: int, width: int) -> Array:
        """Return a random vector for each gradient of the frame."""
        return self._forward.draw(self.size * walks, width).reshape(self.size, walks, width)

    def _layer(self, draw: Callable[[Indices], Array], log_scale: Array) -> ReducedLayer:
        x, ((h, log_norm), slope, log_slope), resampled = self._active(draw, log_scale)
        noise = self._noise(*x.shape)
        scalars, output = Scalars.of(x, h, slope, noise), Length(log_norm, x.shape[1])
        lengths = np.empty((len(x), 2))
        lengths[:, 0], lengths[:, 1] = scalars.x, scalars.noise[0, 0]
        scalars.refine(x, h, slope, noise)
        return ReducedLayer(log_scale, output, resampled, scalars, log_slope, np.log(lengths, out=lengths))


class ExactSampler(ReducedFrames):
    """Draws the layers of a block of walks one by one without their matrices: O(width) per layer.

    See `Sampler` for the methods. For Gaussian weights `luck` holds two control variates per walk: the sums over the
    layers of ln |x|^2 and of ln |xi|^2, less their expectations.
    """

    size: ClassVar[int] = 1

    def top(self, below: Length, width: int, gain: float) -> tuple[Array, Frame]:
        """Return ln of the scale of the last layer, and a random gradient there."""
        log_scale, frame, _ = self.random(below, width, gain)
        return log_scale, frame

    def backward(self, gradient: Frame, layer: ReducedLayer) -> tuple[Frame, Array]:
        """Return the gradient at `layer`, one layer down, and ln of the factor by which |delta| grows at gain 1."""
        if not self.orthogonal:
            self.luck += layer.log_lengths - log_chi2_mean_of(layer.output.width)
        frame, (factor, log_factor) = self.turned(gradient, layer)
        return frame, np.log(np.maximum(factor[0, 0], _LEAST)) + log_factor


def _mixed(products: Array, mix: Array | None, axis: int = -2) -> Array:
    """Return scalar products with mixtures of random vectors, given those with the vectors along an axis.

    `mix` holds the shares of each vector (vector, mixture, walk), the walk being the last axis of `products`, too; None
    leaves them as they are.
    """
    if mix is None:
        return products
    return np.moveaxis(np.einsum("...bw,bjw->...jw", np.moveaxis(products, axis, -2), mix), -2, axis)

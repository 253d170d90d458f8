"""A gradient at each of two inputs of a network: the angles between the gradients and between the signals.

Forward, the images of both inputs; backward, the transposed matrix given these, as in `planes`. As in `exact`, the
random vectors of the way back are drawn on the way forward, and each layer is reduced to scalar products.
"""

import math
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np

from gradwalk.activations import Array, Indices
from gradwalk.simulation import haar, planes
from gradwalk.simulation.chain import Chain
from gradwalk.simulation.gram import gram, nearly_dependent
from gradwalk.simulation.normals import column, dot, merged
from gradwalk.simulation.pairs import Angle, angle_between, angle_of
from gradwalk.simulation.signal import next_log_scale

_LEAST = 1e-20  # bounds squared lengths whose logarithm is taken


class PairLength(NamedTuple):
    """What a layer hands on at two inputs: ln of the lengths of both h, the cosine between them, and their width."""

    log_norm: Array
    cosine: Array
    width: int

    def detached(self) -> "PairLength":
        """Return the same: nothing of it is in the arena."""
        return self


class PairScalars(NamedTuple):
    """Scalar products of the vectors of a layer at two inputs, the walk last.

    The e_i are orthogonal and span the plane of the h, the xi_j are random. `passed` are f'_1 times e_1, e_2, xi_1, and
    f'_2 times e_1, e_2, xi_1, xi_2.

    plane: of each e_i with itself. inside: of the e_i with the xi_j. noise: of the xi_j with one another. passed: of
    the passed vectors with one another. overlap: of the x_i with these. x: of the x_i with one another.
    """

    plane: Array
    inside: Array
    noise: Array
    passed: Array
    overlap: Array
    x: Array

    @classmethod
    def of(cls, x: Array, plane: Array, slope: Array, noise: Array) -> "PairScalars":
        """Return the scalar products, to about the precision of the vectors."""
        scalars = cls._plain(x, plane, slope, noise)
        groups = (nearly_dependent(scalars.passed[group, group]) for group in (_FIRST, _SECOND))
        walks = np.union1d(*groups)
        if walks.size:
            vectors = (vector[:, walks].astype(np.float64) for vector in (x, plane, slope, noise))
            for values, precise in zip(scalars, cls._plain(*vectors), strict=True):
                values[..., walks] = precise
        return scalars

    @classmethod
    def _plain(cls, x: Array, plane: Array, slope: Array, noise: Array) -> "PairScalars":
        passed = np.empty((7, *x.shape[1:]), dtype=x.dtype)
        np.multiply(plane, slope[0], out=passed[:2])
        np.multiply(noise[0], slope[0], out=passed[2])
        np.multiply(plane, slope[1], out=passed[3:5])
        np.multiply(noise, slope[1], out=passed[5:])
        inside, overlap = dot(plane[:, None], noise), dot(x[:, None], passed)
        return cls(dot(plane, plane), inside, gram(noise), gram(passed), overlap, gram(x))


_FIRST, _SECOND = slice(0, 3), slice(3, 7)  # the passed vectors of which each gradient is made


class PairLayer(NamedTuple):
    """What is left of a layer at two inputs for the backward pass; log_scale and log_slope are those of each input."""

    log_scale: Array
    output: PairLength
    resampled: int
    scalars: PairScalars
    log_slope: Array


class InputPair(NamedTuple):
    """A gradient at each of two inputs: x_i . u_j (image, gradient, walk), the angle of the u, and that of the x."""

    overlap: Array
    angle: Angle
    signal_cosine: Array
    width: int


class InputPairSampler(Chain):
    """Draws the layers of a block of walks at two inputs, and takes a gradient at each back through them."""

    block_factor: ClassVar[float] = 2.0
    kept_bytes: ClassVar[int | None] = 700

    @classmethod
    def layer_bytes(cls, width_in: int, width_out: int) -> int:
        """Return how many bytes of one layer of one walk are in use while it is drawn."""
        return 24 * width_out

    def first(self, walks: int, width: int) -> PairLayer:
        """Return layer 0, whose pre-activations are independent with unit variance."""
        return self._layer(lambda rows: self._forward.draw(len(rows), width), np.zeros((2, walks)))

    def forward(self, below: PairLength, width: int, gain: float) -> PairLayer:
        """Return the layer above `below`, with pre-activations a = g W h (eq. 1) of both inputs."""

        def draw(rows: Indices) -> Array:
            cosine = below.cosine[rows[: len(rows) // 2]]
            return self._images(cosine, width, below.width).reshape(len(rows), width)

        return self._layer(draw, next_log_scale(below, gain))

    def top(self, below: PairLength, width: int, gain: float) -> tuple[Array, InputPair]:
        """Return ln of the scale of the last layer for both inputs, and two random gradients there."""
        x = self._images(below.cosine, width, below.width)
        delta = self._backward.draw(2 * x.shape[1], width).reshape(x.shape)
        lengths = np.sqrt(dot(delta, delta))
        overlap, angle = dot(x[:, None], delta) / lengths, angle_between(delta, lengths)
        return next_log_scale(below, gain), InputPair(overlap, angle, _cosine(gram(x)), width)

    def backward(self, gradient: InputPair, layer: PairLayer) -> tuple[InputPair, Array]:
        """Return the gradients at `layer`, one layer down, and ln of the growth of each (gradient, walk) at gain 1."""
        (one, other), log_factor = self._shares(gradient, layer)
        passed, overlap = layer.scalars.passed, layer.scalars.overlap
        with_one, with_other = _combined(passed[:, _FIRST], one), _combined(passed[:, _SECOND], other)
        squared = np.stack([_combined(with_one[_FIRST], one), _combined(with_other[_SECOND], other)])
        lengths = np.sqrt(np.maximum(squared, _LEAST))
        angle = angle_of(_combined(with_one[_SECOND], other) / lengths.prod(axis=0))
        overlap = np.stack([_combined(overlap[:, _FIRST], one), _combined(overlap[:, _SECOND], other)], axis=1)
        pair = InputPair(overlap / lengths, angle, _cosine(layer.scalars.x), layer.output.width)
        return pair, np.log(lengths) + log_factor + layer.log_slope

    def _shares(self, gradient: InputPair, layer: PairLayer) -> tuple[tuple[Array, Array], float]:
        """Return the shares of the passed vectors in each gradient one layer down, and ln of a factor they lack."""
        scalars, (_, plane_cosine, width) = layer.scalars, layer.output
        cosine, (first_overlap, second_overlap) = gradient.angle.cosine, gradient.overlap
        sine = np.sqrt(1 - plane_cosine**2)
        across = (second_overlap - plane_cosine * first_overlap) / np.where(sine > 0, sine, np.inf)
        known, squared = np.stack([first_overlap, across]), np.where(scalars.plane > 0, scalars.plane, np.inf)[:, None]
        inside, mix, log_factor = scalars.inside / squared, planes.independent(cosine), -0.5 * math.log(width)
        if self.orthogonal:
            known /= math.sqrt(max(width, gradient.width))
            left = planes.unit_products(cosine) - planes.contracted(known, known)
            drawn = scalars.noise - planes.contracted(inside, scalars.inside)
            mix = haar.mix(self._backward, drawn, left, gradient.width - width)
            log_factor = haar.log_factor(width, gradient.width)
        first, mixed, second = mix
        along = known / np.sqrt(squared)
        one = along[:, 0] - inside[:, 0] * first
        other = along[:, 1] - inside[:, 0] * mixed - inside[:, 1] * second
        return (np.stack([*one, first]), np.stack([*other, mixed, second])), log_factor

    def _images(self, cosine: Array, width: int, width_in: int) -> Array:
        return planes.images(self._forward, cosine, width, width_in, self.orthogonal)

    def _layer(self, draw: Callable[[Indices], Array], log_scale: Array) -> PairLayer:
        flat, (signal, slope, log_slope), resampled = self._active(draw, log_scale.ravel(), inputs=2)
        x, h, slope = (values.reshape(*log_scale.shape, -1) for values in (flat, signal.h, slope))
        cosine = _orthogonalise(h)
        noise = self._forward.draw(len(flat), x.shape[2]).reshape(x.shape)
        output = PairLength(signal.log_norm.reshape(log_scale.shape), cosine, x.shape[2])
        scalars = PairScalars.of(x, h, slope, noise)
        return PairLayer(log_scale, output, resampled, scalars, log_slope.reshape(log_scale.shape))


def _orthogonalise(vectors: Array) -> Array:
    """Subtract from the second of two vectors per walk its part along the first, in place, and return their cosine.

    Where the sine of the angle is below 1e-3, which single precision does not resolve, the second becomes 0.
    """
    squared, product = dot(vectors, vectors), dot(vectors[0], vectors[1])
    vectors[1] -= vectors[0] * column(product / squared[0])
    across = np.sqrt(dot(vectors[1], vectors[1]))
    along = product / np.sqrt(squared[0])
    cosine = merged(along / np.hypot(along, across))
    vectors[1, np.abs(cosine) == 1] = 0.0
    return cosine


def _combined(products: Array, shares: Array) -> Array:
    """Return scalar products with a combination of vectors, given those with the vectors (..., vector, walk)."""
    return np.asarray((products * shares).sum(axis=-2))


def _cosine(products: Array) -> Array:
    """Return the cosine between two vectors, given their scalar products (vector, vector, walk)."""
    return np.asarray(products[0, 1] / np.sqrt(products[0, 0] * products[1, 1]))

"""Products with random weight matrices, forward and back, without the matrices.

A weight matrix W that mapped h to a = g W h takes a gradient u back as
    W^T u = h (a . u) / (g |h|^2) + (I - h h^T / |h|^2) xi |u| / sqrt(N),   xi standard normal,
exact in law given all that the forward pass reveals of W; Haar matrices likewise, see `haar`. Several gradients at one
input, U = Q R with orthonormal Q, go back as (W^T Q) R, see `frames`; a gradient at each of two inputs, see `planes`.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gradwalk.activations import Array
from gradwalk.blocks import Dense
from gradwalk.simulation import haar, planes
from gradwalk.simulation.normals import Normals, Span, column, dot, gaussian_image, spanned
from gradwalk.simulation.vectors import Vector, paired


class Image(NamedTuple):
    """What a random matrix has revealed of itself: the unit vector along h, and its image.

    Where h is zero nothing is revealed, and a random unit vector takes its place.
    """

    direction: Array
    image: Array


@dataclass(frozen=True)
class Multiply:
    """The product g W h of a weight layer at one input."""

    layer: Dense
    orthogonal: bool

    def forward(self, signal: Vector, normals: Normals) -> tuple[Vector, Image]:
        """Return g W h."""
        walks, width_in = signal.values.shape
        direction = _direction(signal.values, normals)
        draw = haar.image if self.orthogonal else gaussian_image
        image = draw(normals, walks, self.layer.width or width_in, width_in)
        return Vector(image, math.log(self.layer.gain) + signal.log_rms), Image(direction, image)

    def backward(self, gradient: Vector, tape: Image, normals: Normals) -> Vector:
        """Return g W^T u."""
        if gradient.values.ndim > 2:
            return self._several_back(gradient, tape, normals)
        length = np.sqrt(dot(gradient.values, gradient.values))
        overlap = dot(tape.image, gradient.values) / np.where(length > 0, length, 1.0)
        delta = normals.draw(*tape.direction.shape)
        if self.orthogonal:
            log_factor = haar.transposed(normals, delta, overlap, tape.direction, tape.image.shape[1])
        else:
            log_factor = _known(delta, overlap, tape.direction)
        return Vector(delta, gradient.log_scale + np.log(length) + log_factor + math.log(self.layer.gain))

    def _several_back(self, gradient: Vector, tape: Image, normals: Normals) -> Vector:
        """Return g W^T u of several gradients at one input."""
        vectors, coordinates = spanned(gradient.values.copy(), tape.image)
        overlap, (walks, width_in) = dot(tape.image, vectors), tape.direction.shape
        delta = normals.draw(len(vectors) * walks, width_in).reshape(len(vectors), walks, width_in)
        if self.orthogonal:
            log_factor = haar.transposed_frame(normals, delta, overlap, tape.direction, tape.image.shape[1])
        else:
            log_factor = _known(delta, overlap, tape.direction)
        mixed = coordinates.transpose(2, 1, 0).astype(np.float32) @ delta.transpose(1, 0, 2)
        return Vector(mixed.transpose(1, 0, 2), gradient.log_scale + (log_factor + math.log(self.layer.gain)))


@dataclass(frozen=True)
class MultiplyPair:
    """The product g W h of a weight layer at two inputs: the rows of the second inputs follow those of the first."""

    layer: Dense
    orthogonal: bool

    def forward(self, signal: Vector, normals: Normals) -> tuple[Vector, Image]:
        """Return g W h of both inputs."""
        rows, width_in = signal.values.shape
        direction, width = _direction(signal.values, normals), self.layer.width or width_in
        cosine = Span.of(paired(direction)).cosine
        image = planes.images(normals, cosine, width, width_in, self.orthogonal).reshape(rows, width)
        return Vector(image, math.log(self.layer.gain) + signal.log_rms), Image(direction, image)

    def backward(self, gradient: Vector, tape: Image, normals: Normals) -> Vector:
        """Return g W^T u of the gradients at both inputs."""
        length = np.sqrt(dot(gradient.values, gradient.values))
        units = paired(gradient.values / column(np.where(length > 0, length, 1.0)))
        zero = paired(length) == 0
        if zero.any():  # its image does not matter; the other gradient in its place takes up no direction
            units = np.where(zero[..., None], units[::-1], units)
        overlap, cosine = dot(paired(tape.image)[:, None], units), np.clip(dot(units[0], units[1]), -1, 1)
        span, width_out = Span.of(paired(tape.direction)), tape.image.shape[1]
        delta, log_factor = planes.transposed(normals, span, overlap, cosine, width_out, self.orthogonal)
        log_scale = gradient.log_scale + np.log(length) + (log_factor + math.log(self.layer.gain))
        return Vector(delta.reshape(tape.direction.shape), log_scale)


def _direction(values: Array, normals: Normals) -> Array:
    """Return the vectors at unit length, random ones for those that are zero."""
    squared = dot(values, values)
    if not squared.all():
        zero = np.flatnonzero(squared == 0)
        values = values.copy()
        values[zero] = normals.draw(len(zero), values.shape[1])
        squared = dot(values, values)
    return np.asarray(values * column(squared**-0.5))


def _known(delta: Array, overlap: Array, direction: Array) -> float:
    """Turn standard normal `delta` in place into W^T u for a Gaussian W, up to a factor; return its logarithm."""
    delta += direction * column(overlap - dot(direction, delta))
    return -0.5 * math.log(direction.shape[1])

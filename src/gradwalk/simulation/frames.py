"""Several gradients at one input: how a random network turns and stretches an orthonormal frame of them.

Given a = g W h, the matrix takes orthonormal vectors u_j back independently of one another, but for the part on h:
    W^T u_j = h (a . u_j) / (g |h|^2) + (I - h h^T / |h|^2) xi_j / sqrt(N),   xi_j independent, standard normal,
and a Haar matrix as in `haar.transposed_frame`. Behind each layer the frame is made orthonormal again. The product of
the triangular factors then holds the scalar products of any gradients that the frame spans, however small the angle
between them has become. Exact in law, O(width) per layer and gradient.

A layer with no more units than the frame has vectors is filled by a frame of as many vectors as it has units.
"""

import math
from typing import ClassVar, NamedTuple

import numpy as np

from gradwalk.activations import Array
from gradwalk.simulation import haar
from gradwalk.simulation.exact import ExactLayer, ForwardSampler
from gradwalk.simulation.normals import column, dot, orthonormalise
from gradwalk.simulation.signal import Signal


class Frame(NamedTuple):
    """All that the backward pass needs of orthonormal gradients: x . u_j (vector, walk), and the width of the layer."""

    overlap: Array
    width: int


class Turn(NamedTuple):
    """What a layer does to a frame: a triangular factor (row, column, walk) times exp(log_factor)."""

    triangular: Array
    log_factor: Array


class Frames(ForwardSampler):
    """Draws the layers of a block of walks, and turns an orthonormal frame of `size` gradients at their input."""

    size: ClassVar[int] = 2

    @staticmethod
    def of(size: int) -> "type[Frames]":
        """Return the sampler of frames of that many gradients."""
        return type("Frames", (Frames,), {"size": size})

    @classmethod
    def layer_bytes(cls, width_in: int, width_out: int) -> int:
        """Return how many bytes of one layer of one walk are in use: what waits for the way back, and the frame."""
        return 12 * width_out + 40 + 4 * (cls.size - 2) * width_out

    def random(self, below: Signal, width: int) -> tuple[Frame, Array]:
        """Return a frame of random gradients at the last layer, and the triangular factor of these gradients."""
        x = self._image(len(below.h), width, below.h.shape[1])
        vectors, triangular = spanned(self._normal(min(self.size, width), len(below.h), width), x)
        return Frame(dot(x, vectors), width), triangular

    def turned(self, frame: Frame, layer: ExactLayer) -> tuple[Frame, Turn]:
        """Return the frame at `layer`, one layer down, and what turned it, at gain 1."""
        (h, _), slope, log_slope = layer.response
        delta, squared = self._normal(len(frame.overlap), *h.shape), dot(h, h)
        if self.orthogonal:
            along = h / column(np.sqrt(squared))
            log_factor = haar.transposed_frame(self._backward, delta, frame.overlap, along, frame.width)
        else:
            delta += h * column(frame.overlap / np.sqrt(squared) - dot(h, delta) / squared)
            log_factor = -0.5 * math.log(h.shape[1])
        delta *= slope
        vectors, triangular = spanned(delta, layer.x)
        return Frame(dot(layer.x, vectors), h.shape[1]), Turn(triangular, log_factor + log_slope)

    def _normal(self, size: int, walks: int, width: int) -> Array:
        return self._backward.draw(size * walks, width).reshape(size, walks, width)


def spanned(vectors: Array, x: Array) -> tuple[Array, Array]:
    """Return orthonormal vectors that span the given ones of each walk, and the coordinates of these.

    `vectors` has the axes vector, walk, component, and is overwritten; the coordinates, those of `orthonormalise`.
    Where the vectors fill the space, the first of the orthonormal ones is along x: a Haar matrix maps the others freely
    to what is across the source of x.
    """
    units = vectors.shape[2]
    if len(vectors) < units:
        return vectors, orthonormalise(vectors)
    vectors = np.concatenate([x[None], vectors])
    factor = orthonormalise(vectors)
    lengths = np.einsum("jjw->jw", factor)
    lengths[0] = np.inf
    kept = np.argsort(-lengths, axis=0)[:units, :, None]  # the others depend on these
    return np.take_along_axis(vectors, kept, 0), np.take_along_axis(factor[:, 1:], kept.transpose(0, 2, 1), 0)

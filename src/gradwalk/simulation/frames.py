"""Several gradients at one input: how a random network turns and stretches an orthonormal frame of them.

Given a = g W h, the matrix takes orthonormal vectors u_j back independently of one another, but for the part on h:
    W^T u_j = h (a . u_j) / (g |h|^2) + (I - h h^T / |h|^2) xi_j / sqrt(N),   xi_j independent, standard normal,
and a Haar matrix as in `haar.transposed_frame`. Behind each layer the frame is made orthonormal again. The product of
the triangular factors then holds the scalar products of any gradients that the frame spans, however small the angle
between them has become. Exact in law, O(width) per layer and gradient.

A layer with no more units than the frame has vectors is filled by a frame of as many vectors as it has units.
"""

import math
from collections.abc import Callable
from typing import ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from gradwalk.activations import Array, Indices
from gradwalk.simulation import haar
from gradwalk.simulation.chain import Chain
from gradwalk.simulation.normals import column, dot, spanned
from gradwalk.simulation.sampler import LayerSampler, LayerT, ReadT
from gradwalk.simulation.signal import Response, Signal, next_log_scale

FrameT = TypeVar("FrameT")


class Frame(NamedTuple):
    """All that the backward pass needs of orthonormal gradients: x . u_j (vector, walk), and the width of the layer."""

    overlap: Array
    width: int


class Turn(NamedTuple):
    """What a layer does to a frame: a triangular factor (row, column, walk) times exp(log_factor)."""

    triangular: Array
    log_factor: Array


class FrameSampler(LayerSampler[LayerT, ReadT], Protocol[LayerT, ReadT, FrameT]):
    """Draws the layers of a block of walks, and turns an orthonormal frame of gradients at their input.

    `FrameT` is what it keeps of the frame.
    """

    size: ClassVar[int]  # of the frame, in layers that have as many units

    def random(self, below: ReadT, width: int, gain: float) -> tuple[Array, FrameT, Array]:
        """Return ln of the scale of the last layer, a frame of random gradients there, and their triangular factor."""

    def turned(self, frame: FrameT, layer: LayerT) -> tuple[FrameT, Turn]:
        """Return the frame at `layer`, one layer down, and what turned it, at gain 1."""


class VectorLayer(NamedTuple):
    """What a layer keeps for the backward pass, one row per walk: a = exp(log_scale) x, h = f(a) and f'(a)."""

    x: Array
    log_scale: Array
    response: Response
    resampled: int

    @property
    def output(self) -> Signal:
        """The signal that the layer hands on: f(a)."""
        return self.response.signal


class Frames(Chain):
    """Draws the layers of a block of walks of a chain, and turns a frame of `size` gradients. See `FrameSampler`."""

    size: ClassVar[int] = 16

    @classmethod
    def layer_bytes(cls, width_in: int, width_out: int) -> int:
        """Return how many bytes of one layer of one walk are in use: what waits for the way back, and the frame."""
        return 12 * width_out + 40 + 4 * (cls.size - 2) * width_out

    def first(self, walks: int, width: int) -> VectorLayer:
        """Return layer 0, whose pre-activations are independent with unit variance."""
        return self._layer(lambda rows: self._forward.draw(len(rows), width), np.zeros(walks))

    def forward(self, below: Signal, width: int, gain: float) -> VectorLayer:
        """Return the layer above `below`, with pre-activations a = g W h (eq. 1)."""
        return self._layer(lambda rows: self._image(len(rows), width, below.width), next_log_scale(below, gain))

    def random(self, below: Signal, width: int, gain: float) -> tuple[Array, Frame, Array]:
        """Return ln of the scale of the last layer, a frame of random gradients there, and their triangular factor."""
        x = self._image(len(below.h), width, below.h.shape[1])
        vectors, triangular = spanned(self._normal(min(self.size, width), len(below.h), width), x)
        return next_log_scale(below, gain), Frame(dot(x, vectors), width), triangular

    def turned(self, frame: Frame, layer: VectorLayer) -> tuple[Frame, Turn]:
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

    def _layer(self, draw: Callable[[Indices], Array], log_scale: Array) -> VectorLayer:
        x, (signal, slope, log_slope), resampled = self._active(draw, log_scale)
        keep = self.arena.keep
        kept = Response(Signal(keep(signal.h), signal.log_norm), keep(slope), log_slope)
        return VectorLayer(keep(x), log_scale, kept, resampled)

    def _normal(self, size: int, walks: int, width: int) -> Array:
        return self._backward.draw(size * walks, width).reshape(size, walks, width)

"""Two gradients per network, at one input or at two: the walk of the angle between them, beside those of their norms.

For two gradients at one input see `frames`, for two inputs `planes`. Exact in law, O(width) per layer.
"""

import math
from collections.abc import Callable
from typing import ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from gradwalk.activations import Array, Indices
from gradwalk.simulation import planes
from gradwalk.simulation.exact import ExactLayer, ForwardSampler
from gradwalk.simulation.frames import Frame, Frames, FrameSampler, FrameT
from gradwalk.simulation.networks import Networks
from gradwalk.simulation.normals import Span, column, dot
from gradwalk.simulation.sampler import LayerT
from gradwalk.simulation.signal import Response, Signal, active, next_log_scale
from gradwalk.simulation.tracks import Tracks

PairKind = Literal["gradients", "inputs"]

_LEAST = 1e-20  # bounds lengths whose logarithm is taken


class Angle(NamedTuple):
    """The angle between two gradients, one per walk: its cosine, and ln of its sine."""

    cosine: Array
    log_sine: Array


class Gradients(Protocol):
    """Two gradients per walk."""

    @property
    def angle(self) -> Angle:
        """The angle between them."""

    @property
    def signal_cosine(self) -> Array | float:
        """The cosine of the angle between the pre-activations of their inputs."""


GradientsT = TypeVar("GradientsT", bound=Gradients)


class GradientPair(NamedTuple, Generic[FrameT]):
    """Two gradients at one input: the frame that they span, the first of them along its first vector."""

    frame: FrameT
    angle: Angle

    @property
    def signal_cosine(self) -> float:
        """1: there is one input."""
        return 1.0


class GradientPairs(FrameSampler[LayerT, FrameT], Protocol[LayerT, FrameT]):
    """Takes two gradients at one input back, by frames of two. To be mixed into a sampler of frames."""

    def top(self, below: Signal, width: int, gain: float) -> tuple[Array, GradientPair[FrameT]]:
        """Return ln of the scale of the last layer, and two random gradients there."""
        log_scale, frame, triangular = self.random(below, width, gain)
        angle, _ = _angle(triangular[0, 1], np.log(triangular[1, 1]))
        return log_scale, GradientPair(frame, angle)

    def backward(self, gradient: GradientPair[FrameT], layer: LayerT) -> tuple[GradientPair[FrameT], Array]:
        """Return the gradients at `layer`, one layer down, and ln of the growth of each (gradient, walk) at gain 1."""
        frame, (triangular, log_factor) = self.turned(gradient.frame, layer)
        first, mixed, across = np.maximum(triangular[0, 0], _LEAST), triangular[0, 1], triangular[1, 1]
        cosine, log_sine = gradient.angle
        along = cosine * first + np.exp(log_sine) * mixed
        angle, log_length = _angle(along, log_sine + np.log(np.maximum(across, _LEAST)))
        return GradientPair(frame, angle), np.stack([np.log(first), log_length]) + log_factor


class GradientPairSampler(Frames, GradientPairs[ExactLayer, Frame]):
    """Draws the layers of a block of walks of a chain, and takes two gradients at one input back through them."""

    size: ClassVar[int] = 2


def _angle(along: Array, log_across: Array) -> tuple[Angle, Array]:
    """Return the angle between the first gradient and the second, and ln of the length of the second.

    The arguments are the components of the second gradient: along the first, and ln of that across it.
    """
    log_length = np.log(np.maximum(np.hypot(along, np.exp(log_across)), _LEAST))
    return Angle(along * np.exp(-log_length), log_across - log_length), log_length


class InputPair(NamedTuple):
    """A gradient at each of two inputs: x of the layer, x_i . u_j (image, gradient, walk), and the angle of the u."""

    x: Array
    overlap: Array
    angle: Angle

    @property
    def signal_cosine(self) -> Array:
        """The cosine of the angle between the pre-activations of the inputs."""
        return np.asarray(dot(self.x[0], self.x[1]) / np.sqrt(dot(self.x, self.x).prod(axis=0)))


class InputPairSampler(ForwardSampler):
    """Draws the layers of a block of walks at two inputs, and takes a gradient at each back through them.

    All arrays of a layer have an axis more than those at one input, for the input, in front. Its h have unit length.
    """

    block_factor = 3.0

    @classmethod
    def layer_bytes(cls, width_in: int, width_out: int) -> int:
        """Return how many bytes of one layer of one walk stay in memory until the backward pass."""
        return 24 * width_out + 80

    def first(self, walks: int, width: int) -> ExactLayer:
        """Return layer 0, whose pre-activations are independent with unit variance."""
        return self._pair_layer(lambda rows: self._forward.draw(len(rows), width), np.zeros((2, walks)))

    def forward(self, below: Signal, width: int, gain: float) -> ExactLayer:
        """Return the layer above `below`, with pre-activations a = g W h (eq. 1) of both inputs."""
        cosine = Span.of(below.h).cosine
        return self._pair_layer(
            lambda rows: self._images(cosine[rows[: len(rows) // 2]], width, below.h.shape[2]).reshape(
                len(rows), width
            ),
            next_log_scale(below, gain),
        )

    def top(self, below: Signal, width: int, gain: float) -> tuple[Array, InputPair]:
        """Return ln of the scale of the last layer for both inputs, and two random gradients there."""
        x = self._images(Span.of(below.h).cosine, width, below.h.shape[2])
        delta = self._backward.draw(2 * x.shape[1], width).reshape(x.shape)
        return next_log_scale(below, gain), _measured(x, delta)[0]

    def backward(self, gradient: InputPair, layer: ExactLayer) -> tuple[InputPair, Array]:
        """Return the gradients at `layer`, one layer down, and ln of the growth of each (gradient, walk) at gain 1."""
        (h, _), slope, log_slope = layer.response
        overlap, cosine, width = gradient.overlap, gradient.angle.cosine, gradient.x.shape[2]
        delta, log_factor = planes.transposed(self._backward, Span.of(h), overlap, cosine, width, self.orthogonal)
        delta *= slope
        pair, log_length = _measured(layer.x, delta)
        return pair, log_length + log_factor + log_slope

    def _images(self, cosine: Array, width: int, width_in: int) -> Array:
        return planes.images(self._forward, cosine, width, width_in, self.orthogonal)

    def _pair_layer(self, draw: Callable[[Indices], Array], log_scale: Array) -> ExactLayer:
        flat, (signal, slope, log_slope), resampled = active(
            self.activation, draw, log_scale.ravel(), self._drop, inputs=2
        )
        h = np.multiply(signal.h, column(1 / np.sqrt(dot(signal.h, signal.h))), out=signal.h)
        x, h, slope = (self.arena.keep(values).reshape(*log_scale.shape, -1) for values in (flat, h, slope))
        signal = Signal(h, signal.log_norm.reshape(log_scale.shape))
        return ExactLayer(x, log_scale, Response(signal, slope, log_slope.reshape(log_scale.shape)), resampled)


def _measured(x: Array, delta: Array) -> tuple[InputPair, Array]:
    """Return all that is needed of the gradients at a layer, and ln of their lengths."""
    lengths = np.sqrt(np.maximum(dot(delta, delta), _LEAST))
    overlap = dot(x[:, None], delta) / lengths
    return InputPair(x, overlap, angle_between(delta, lengths)), np.log(lengths)


def angle_between(delta: Array, lengths: Array) -> Angle:
    """Return the angle between two gradients (gradient, walk, component) of these lengths."""
    cosine = np.clip(dot(delta[0], delta[1]) / lengths.prod(axis=0), -1, 1)
    return Angle(cosine, 0.5 * np.log(np.maximum(1 - cosine**2, 1e-14)))


class PairNetworks(Networks[LayerT, GradientsT], Generic[LayerT, GradientsT]):
    """Networks with two gradients each."""

    def walk(self, tracks: Tracks) -> int:
        """Fill the rows of this block, and return how many layers were resampled."""
        column, walks = tracks.column, len(tracks.log_norm)
        total = np.zeros((2, walks))
        below, resampled = self.forward(walks)
        log_scale, gradient = self.sampler.top(below, self.widths[-1], self.gains[-1])
        _fill(tracks, 0, total, log_scale, gradient)
        for d, layer in self.downward():
            gradient, growth = self.sampler.backward(gradient, layer)
            total += growth + math.log(self.gains[d])
            if d in column:
                _fill(tracks, column[d], total, layer.log_scale, gradient)
            self.advance(1)
        return resampled


def _fill(tracks: Tracks, column: int, total: Array, log_scale: Array, gradients: Gradients) -> None:
    """Fill a column with the log-norms of both gradients, the scales at both inputs, and the angles."""
    assert tracks.pair is not None
    variances = np.broadcast_to(2 * log_scale.reshape(-1, total.shape[1]), total.shape)
    tracks.log_norm[:, column], tracks.pair.log_norm[:, column] = total
    tracks.log_variance[:, column], tracks.pair.log_variance[:, column] = variances
    tracks.pair.cosine[:, column], tracks.pair.log_sine[:, column] = gradients.angle
    tracks.pair.signal_cosine[:, column] = gradients.signal_cosine

"""Two gradients per network, at one input or at two: the walk of the angle between them, beside those of their norms.

For two gradients at one input see `frames`, for two inputs `input_pairs`. Exact in law, O(width) per layer.
"""

import math
from typing import ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar

import numpy as np

from gradwalk.activations import Array
from gradwalk.simulation.exact import ReducedFrames, ReducedLayer
from gradwalk.simulation.frames import Frame, FrameSampler, FrameT
from gradwalk.simulation.networks import Networks
from gradwalk.simulation.normals import dot
from gradwalk.simulation.sampler import LayerT, OutputT, ReadT
from gradwalk.simulation.signal import Length
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


class GradientPairs(FrameSampler[LayerT, ReadT, FrameT], Protocol[LayerT, ReadT, FrameT]):
    """Takes two gradients at one input back, by frames of two. To be mixed into a sampler of frames."""

    def top(self, below: ReadT, width: int, gain: float) -> tuple[Array, GradientPair[FrameT]]:
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


class GradientPairSampler(ReducedFrames, GradientPairs[ReducedLayer, Length, Frame]):
    """Draws the layers of a block of walks of a chain, and takes two gradients at one input back through them."""

    size: ClassVar[int] = 2


def _angle(along: Array, log_across: Array) -> tuple[Angle, Array]:
    """Return the angle between the first gradient and the second, and ln of the length of the second.

    The arguments are the components of the second gradient: along the first, and ln of that across it.
    """
    log_length = np.log(np.maximum(np.hypot(along, np.exp(log_across)), _LEAST))
    return Angle(along * np.exp(-log_length), log_across - log_length), log_length


def angle_between(delta: Array, lengths: Array) -> Angle:
    """Return the angle between two gradients (gradient, walk, component) of these lengths."""
    return angle_of(dot(delta[0], delta[1]) / lengths.prod(axis=0))


def angle_of(cosine: Array) -> Angle:
    """Return the angle with that cosine, up to rounding."""
    cosine = np.clip(cosine, -1, 1)
    return Angle(cosine, 0.5 * np.log(np.maximum(1 - cosine**2, 1e-14)))


class PairNetworks(Networks[LayerT, OutputT, GradientsT], Generic[LayerT, OutputT, GradientsT]):
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

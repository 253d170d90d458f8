"""Several gradients through networks of blocks: frames of them at one input, and a gradient at each of two inputs.

Two inputs of a network share its weights and nothing else: their dropout masks are independent, as those of two
examples of a batch are. All gradients at one input see the same masks.
"""

from typing import ClassVar, NamedTuple

import numpy as np

from gradwalk.activations import Array
from gradwalk.simulation.blocks import BlockForward, BlockLayer, nothing_passes, random_unit, unit_length
from gradwalk.simulation.frames import Turn
from gradwalk.simulation.normals import orthonormalise
from gradwalk.simulation.operations import row_cosines
from gradwalk.simulation.pairs import Angle, GradientPairs, angle_between
from gradwalk.simulation.signal import Signal
from gradwalk.simulation.vectors import Tape, Vector, paired


class BlockFrame(NamedTuple):
    """Orthonormal gradients with respect to the stream (vector, walk, component), and the tapes of the block below."""

    vectors: Array
    body: list[Tape]


class BlockFrames(BlockForward):
    """Draws networks of one repeated block, and turns a frame of `size` gradients at their input."""

    size: ClassVar[int] = 16

    @classmethod
    def layer_bytes(cls, width_in: int, width_out: int) -> int:
        """Return how many bytes of one layer of one walk are in use: what waits for the way back, and the frame."""
        return super().layer_bytes(width_in, width_out) + 4 * (cls.size - 1) * width_out

    def random(self, below: Signal, width: int, gain: float) -> tuple[Array, BlockFrame, Array]:
        """Return ln of the scale of the last stream, a frame of random gradients there, and their triangular factor."""
        stream, body = self._last(below)
        walks, width = stream.values.shape
        size = min(self.size, width)
        vectors = self._backward.draw(size * walks, width).reshape(size, walks, width)
        triangular = orthonormalise(vectors)
        return stream.log_rms, BlockFrame(vectors, body), triangular

    def turned(self, frame: BlockFrame, layer: BlockLayer) -> tuple[BlockFrame, Turn]:
        """Return the frame one block down, and what turned it."""
        gradients = self._down(Vector(frame.vectors, np.zeros(frame.vectors.shape[:2])), frame.body, layer)
        log_largest = gradients.log_length.max(axis=0)
        if not np.isfinite(log_largest).all():
            raise nothing_passes()
        triangular = orthonormalise(gradients.values) * np.exp(gradients.log_scale - log_largest)
        return BlockFrame(gradients.values, layer.body), Turn(triangular, log_largest)


class BlockGradientPairs(BlockFrames, GradientPairs[BlockLayer, Signal, BlockFrame]):
    """Draws networks of one repeated block, and takes two gradients at one input back through each."""

    size: ClassVar[int] = 2


class BlockInputPair(NamedTuple):
    """A gradient of unit length at each of two inputs, the tapes of the block below, and the angles between both."""

    vector: Vector
    body: list[Tape]
    angle: Angle
    signal_cosine: Array


class BlockInputPairs(BlockForward):
    """Draws networks of one repeated block at two inputs, and takes a gradient at each back through them."""

    inputs: ClassVar[int] = 2

    def top(self, below: Signal, width: int, gain: float) -> tuple[Array, BlockInputPair]:
        """Return ln of the scale of both streams that leave the last block, and two random gradients there."""
        stream, body = self._last(below)
        cosine = row_cosines(stream.values, self.inputs)
        return stream.log_rms, _pair(random_unit(self._backward, stream), body, cosine)

    def backward(self, gradient: BlockInputPair, layer: BlockLayer) -> tuple[BlockInputPair, Array]:
        """Return the gradients one block down, and ln of the growth of each (gradient, walk)."""
        vector, growth = unit_length(self._down(gradient.vector, gradient.body, layer))
        return _pair(vector, layer.body, layer.stream.cosine), paired(growth)


def _pair(vector: Vector, body: list[Tape], cosine: Array) -> BlockInputPair:
    """Return gradients of unit length with the angle between them, given the cosine of the streams in each row."""
    values = paired(vector.values)
    angle = angle_between(values, np.exp(-paired(vector.log_scale)))
    return BlockInputPair(vector, body, angle, paired(cosine)[0])

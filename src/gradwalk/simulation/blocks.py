"""The exact sampler for blocks: the joint law of the forward and backward pass, with vectors in the place of matrices.

The cost is O(width) per weight layer. See `operations` for what blocks are made of, and `block_pairs` for networks
with several gradients.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from gradwalk.activations import Array, Indices
from gradwalk.blocks import Block, Chain, Dense, Residual, output_width
from gradwalk.checks import Weights
from gradwalk.simulation.arena import Arena
from gradwalk.simulation.normals import Normals, dot
from gradwalk.simulation.operations import (
    Drop,
    Measure,
    Normalise,
    Respond,
    Slope,
    Start,
    Stream,
    back,
    operations,
    run,
)
from gradwalk.simulation.products import Multiply, MultiplyPair
from gradwalk.simulation.signal import ATTEMPTS, Signal, rows_to_redraw
from gradwalk.simulation.vectors import Operation, Tape, Vector

BlocksT = TypeVar("BlocksT", bound="BlockForward")


class BlockLayer(NamedTuple):
    """The stream between two blocks, up to the first weight matrix of the upper one, and how it was reached.

    stream: what is reported of it. output: what that matrix reads. body: the tapes of the lower block from its first
    matrix on, empty for layer 0. entry: those of the upper block before its first matrix, `stream` included.
    """

    stream: Stream
    output: Signal
    body: list[Tape]
    entry: list[Tape]
    resampled: int

    @property
    def log_scale(self) -> Array:
        """ln of the root mean square of the stream in each row."""
        return self.stream.log_rms


class BlockForward:
    """Draws networks of one repeated block without their matrices: the part that all samplers of gradients share.

    Outside residual sums, where nothing may replace a signal that dies, the operations from one weight matrix to the
    next are drawn again in the walks in which nothing passes the activation that they lead to, as in a chain. A norm
    removes the change of its input's length, so that two units must pass where one follows the matrix that reads them.
    Subclass with `of(block)`; see `Sampler` for the methods.
    """

    block: ClassVar[Block]
    block_factor: ClassVar[float] = 1.0
    kept_bytes: ClassVar[int | None] = None
    inputs: ClassVar[int] = 1  # per network, each a row of all arrays

    def __init__(self, network: Block, weights: Weights, arena: Arena, seed: np.random.SeedSequence) -> None:
        forward, backward = seed.spawn(2)
        self.arena = arena
        self.luck: Array | float = 0.0
        self._forward, self._backward = Normals(forward), Normals(backward)
        sequence = _before_norms(operations(network, weights == "orthogonal", self.inputs))
        first = next((index for index, each in enumerate(sequence) if _is_product(each)), 0)
        self._entry: tuple[Operation, ...] = (Measure(self.inputs), *sequence[:first])
        self._body = sequence[first:]

    @classmethod
    def of(cls: type[BlocksT], block: Block) -> type[BlocksT]:
        """Return the sampler of networks that repeat this block."""
        return type(cls.__name__, (cls,), {"block": block})

    @classmethod
    def layer_bytes(cls, width_in: int, width_out: int) -> int:
        """Return how many bytes of one layer of one walk stay in memory until the backward pass."""
        return cls.inputs * (tape_bytes(cls.block, width_out) + 4 * width_out + 16)

    def mark(self) -> Callable[[], None]:
        """Return a function that rewinds the forward draws to this point."""
        return self._forward.mark()

    def first(self, walks: int, width: int) -> BlockLayer:
        """Return layer 0: a stream of independent components with unit variance."""
        rows = self.inputs * walks
        nothing = Vector(np.zeros((rows, width), np.float32), np.zeros(rows))
        output, (_, *entry), resampled = self._draw((Start(), *self._entry), nothing)
        return BlockLayer(entry[0], _signal(output), [], entry, resampled)

    def forward(self, below: Signal, width: int, gain: float) -> BlockLayer:
        """Return the layer above the block whose first weight matrix reads `below`."""
        output, tapes, resampled = self._draw((*self._body, *self._entry), _vector(below))
        body, entry = tapes[: len(self._body)], tapes[len(self._body) :]
        return BlockLayer(entry[0], _signal(output), body, entry, resampled)

    def _last(self, below: Signal) -> tuple[Vector, list[Tape]]:
        """Return the stream that leaves the last block, and the tapes of that from its first matrix on."""
        stream, body, _ = self._draw(self._body, _vector(below))
        return stream, body

    def _down(self, gradient: Vector, body: list[Tape], layer: BlockLayer) -> Vector:
        """Return the gradient one block down, given the tapes of that block from its first matrix on."""
        at_matrix = back(self._body, gradient, body, self._backward)
        return back(self._entry, at_matrix, layer.entry, self._backward)

    def _draw(self, sequence: tuple[Operation, ...], signal: Vector) -> tuple[Vector, list[Tape], int]:
        """Return the output of operations, their tapes, and how often parts of them were drawn again."""
        tapes: list[Tape] = []
        resampled = 0
        for stage in _stages(sequence):
            signal, kept, again = self._draw_stage(stage, signal)
            tapes, resampled = tapes + kept, resampled + again
        return signal, tapes, resampled

    def _draw_stage(self, stage: tuple[Operation, ...], signal: Vector) -> tuple[Vector, list[Tape], int]:
        output, tapes = run(stage, signal, self._forward)
        resampled = 0
        for _ in range(ATTEMPTS):
            rows = rows_to_redraw(_active(output, tapes), self.inputs)
            if rows.size == 0:
                return output, tapes, resampled
            again = run(stage, Vector(signal.values[rows], signal.log_scale[rows]), self._forward)
            _replace((output, tapes), rows, again)
            resampled += rows.size // self.inputs
        raise ValueError("simulate: nothing passes some block; widen the layers or add a skip")


class BlockGradient(NamedTuple):
    """The gradient with respect to the stream, and the tapes of the block below it from its first matrix on."""

    vector: Vector
    body: list[Tape]


class BlockSampler(BlockForward):
    """Draws networks of one repeated block, and takes a gradient back through each."""

    def top(self, below: Signal, width: int, gain: float) -> tuple[Array, BlockGradient]:
        """Return ln of the scale of the stream that leaves the last block, and a random gradient there."""
        stream, body = self._last(below)
        return stream.log_rms, BlockGradient(random_unit(self._backward, stream), body)

    def backward(self, gradient: BlockGradient, layer: BlockLayer) -> tuple[BlockGradient, Array]:
        """Return the gradient one block down, with unit length, and ln of the factor by which its length grew."""
        vector, growth = unit_length(self._down(gradient.vector, gradient.body, layer))
        return BlockGradient(vector, layer.body), growth


def random_unit(normals: Normals, like: Vector) -> Vector:
    """Return a random vector of unit length for each row of another one."""
    values = normals.draw(*like.values.shape)
    return Vector(values, -0.5 * np.log(dot(values, values)))


def unit_length(gradient: Vector) -> tuple[Vector, Array]:
    """Return gradients at unit length, and ln of their lengths; an error if one of them is zero."""
    log_length = gradient.log_length
    if not np.isfinite(log_length).all():
        raise nothing_passes()
    return Vector(gradient.values, gradient.log_scale - log_length), log_length


def nothing_passes() -> ValueError:
    """Return the error of a block that passes no gradient."""
    return ValueError("simulate: nothing passes some block on the way back; widen the layers or add a skip")


def tape_bytes(block: Block, width: int) -> int:
    """Return how many bytes per walk the tape of a block occupies for a stream of that width."""
    if isinstance(block, Dense):
        return 4 * (2 * width + (block.width or width)) + 8
    if isinstance(block, Residual):
        return tape_bytes(block.branch, width)
    if not isinstance(block, Chain):
        return 4 * width + 8
    total = 0
    for part in block.parts:
        total += tape_bytes(part, width)
        width = output_width(part, width)
    return total


def _stages(sequence: tuple[Operation, ...]) -> list[tuple[Operation, ...]]:
    """Return operations cut before each weight matrix."""
    edges = [index for index, each in enumerate(sequence) if index == 0 or _is_product(each)]
    return [sequence[start:end] for start, end in zip(edges, [*edges[1:], len(sequence)], strict=True)]


def _is_product(operation: Operation) -> bool:
    return isinstance(operation, Multiply | MultiplyPair)


def _active(output: Vector, tapes: list[Tape]) -> Array:
    """Return in which rows neither the signal is zero nor the slope of the activation that it has just passed."""
    slope = tapes[-1].log_slope if isinstance(tapes[-1], Slope) else 0.0
    return np.asarray(np.isfinite(output.log_length + slope))


def _before_norms(sequence: tuple[Operation, ...]) -> tuple[Operation, ...]:
    """Return operations that repeat, with activations that two units must pass where a norm follows their matrix."""
    result = list(sequence)
    for index, each in enumerate(sequence):
        after = [*sequence[index + 2 :], *sequence[:index]]  # the matrix is next to the activation
        following = next((other for other in after if not isinstance(other, Drop)), None)
        if isinstance(each, Respond) and isinstance(following, Normalise):
            result[index] = replace(each, least=2)
    return tuple(result)


def _replace(kept: Tape, rows: Indices, again: Tape) -> None:
    """Replace these rows of all arrays in nested tuples and lists."""
    if isinstance(kept, np.ndarray):
        kept[rows] = again
        return
    for old, new in zip(kept, again, strict=True):
        _replace(old, rows, new)


def _signal(vector: Vector) -> Signal:
    return Signal(vector.values, vector.log_length)


def _vector(signal: Signal) -> Vector:
    return Vector(signal.h, signal.log_norm - 0.5 * np.log(dot(signal.h, signal.h)))

"""The exact sampler for blocks: the joint law of the forward and backward pass, with vectors in the place of matrices.

A weight matrix W that mapped h to a = g W h takes a gradient u back as
    W^T u = h (a . u) / (g |h|^2) + (I - h h^T / |h|^2) xi |u| / sqrt(N),   xi standard normal,
exact in law given all that the forward pass reveals of W; Haar matrices likewise, see `haar`. Norms, dropout and
residual sums are deterministic given the signal and the masks, and their transposed Jacobians are applied as they are.
The cost is O(width) per weight layer.
"""

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from gradwalk.activations import Array
from gradwalk.blocks import Block, Chain, Dense, Dropout, Norm, Residual, output_width
from gradwalk.checks import Weights
from gradwalk.simulation import haar
from gradwalk.simulation.arena import Arena
from gradwalk.simulation.normals import Normals, column, dot, gaussian_image
from gradwalk.simulation.signal import Signal, dropped, respond

Tape = Any  # what the forward pass of a part keeps for its own backward pass; nothing else looks into it


class Vector(NamedTuple):
    """One vector per walk, exp(log_scale) * values; log_scale is -inf where the vector is zero."""

    values: Array
    log_scale: Array

    @property
    def log_length(self) -> Array:
        """ln of the length of each vector."""
        return np.asarray(self.log_scale + 0.5 * np.log(dot(self.values, self.values)))


class DenseTape(NamedTuple):
    """What a weight layer keeps: the unit vector along h, the image of h, and the slope with the dropout mask."""

    direction: Array
    image: Array
    slope: Array
    log_slope: Array


class NormTape(NamedTuple):
    """What a norm keeps: its output by groups, and ln of what it divided by, per walk and group."""

    output: Array
    log_divisor: Array


class BlockLayer(NamedTuple):
    """One block of the networks: the scale of the stream that enters it, the stream that leaves it, and its tape."""

    log_scale: Array
    output: Signal
    tape: Tape
    resampled: int = 0


class BlockSampler:
    """Draws networks of one repeated block without their matrices. Subclass with `of(block)`; see `Sampler`.

    Layer d is the stream between block d and block d + 1, and keeps what the backward pass through block d + 1 needs.
    """

    block: ClassVar[Block]

    def __init__(self, network: Block, weights: Weights, arena: Arena, seed: np.random.SeedSequence) -> None:
        forward, backward = seed.spawn(2)
        self.arena, self.orthogonal = arena, weights == "orthogonal"
        self.luck: Array | float = 0.0
        self._forward, self._backward = Normals(forward), Normals(backward)

    @staticmethod
    def of(block: Block) -> "type[BlockSampler]":
        """Return the sampler of networks that repeat this block."""
        return type("BlockSampler", (BlockSampler,), {"block": block})

    @classmethod
    def layer_bytes(cls, width_in: int, width_out: int) -> int:
        """Return how many bytes of one layer of one walk stay in memory until the backward pass."""
        return tape_bytes(cls.block, width_out) + 4 * width_out + 16

    def mark(self) -> Callable[[], None]:
        """Return a function that rewinds the forward draws to this point."""
        return self._forward.mark()

    def first(self, walks: int, width: int) -> BlockLayer:
        """Return layer 0: a stream of independent components with unit variance, and the first block applied to it."""
        return self._layer(Vector(self._forward.draw(walks, width), np.zeros(walks)))

    def forward(self, below: Signal, width: int, gain: float) -> BlockLayer:
        """Return the layer above, whose stream is `below`, with the next block applied to it."""
        return self._layer(_vector(below))

    def top(self, below: Signal, width: int, gain: float) -> tuple[Array, Vector]:
        """Return ln of the scale of the stream that leaves the last block, and a random gradient there."""
        values = self._backward.draw(*below.h.shape)
        return _log_rms(_vector(below)), Vector(values, -0.5 * np.log(dot(values, values)))

    def backward(self, gradient: Vector, layer: BlockLayer) -> tuple[Vector, Array]:
        """Return the gradient one block down, with unit length, and ln of the factor by which its length grew."""
        below = self._back(self.block, gradient, layer.tape)
        growth = below.log_length
        if not np.isfinite(growth).all():
            raise ValueError("simulate: nothing passes some block in either direction; widen the layers or add a skip")
        return Vector(below.values, below.log_scale - growth), growth

    def _layer(self, stream: Vector) -> BlockLayer:
        output, tape = self._apply(self.block, stream)
        if not np.isfinite(output.log_length).all():
            raise ValueError("simulate: the signal of a network dies out in some block; widen the layers or add a skip")
        return BlockLayer(_log_rms(stream), Signal(output.values, output.log_length), tape)

    def _apply(self, block: Block, signal: Vector) -> tuple[Vector, Tape]:
        """Return the output of a block and its tape."""
        if isinstance(block, Dense):
            return self._dense(block, signal)
        if isinstance(block, Norm):
            return _norm(block, signal)
        if isinstance(block, Dropout):
            mask = self._forward.mask(signal.values.shape, block.rate)
            return Vector(signal.values * mask, signal.log_scale), mask
        if isinstance(block, Residual):
            branch, tapes = self._apply(block.branch, signal)
            return _sum(block.skip, signal, block.scale, branch), tapes
        tapes = []
        for part in block.parts:
            signal, tape = self._apply(part, signal)
            tapes.append(tape)
        return signal, tapes

    def _back(self, block: Block, gradient: Vector, tape: Tape) -> Vector:
        """Return the gradient with respect to the input of a block, given that with respect to its output."""
        if isinstance(block, Dense):
            return self._dense_back(block, gradient, tape)
        if isinstance(block, Norm):
            return _norm_back(block, gradient, tape)
        if isinstance(block, Dropout):
            return Vector(gradient.values * tape, gradient.log_scale)
        if isinstance(block, Residual):
            return _sum(block.skip, gradient, block.scale, self._back(block.branch, gradient, tape))
        for part, kept in zip(reversed(block.parts), reversed(tape), strict=True):
            gradient = self._back(part, gradient, kept)
        return gradient

    def _dense(self, part: Dense, signal: Vector) -> tuple[Vector, DenseTape]:
        """Return g W dropout(f(a)); where that is zero, nothing of W is revealed."""
        response = respond(part.activation, signal.values, signal.log_scale)
        if part.dropout:
            response = dropped(response, self._forward.mask(signal.values.shape, part.dropout))
        (h, log_norm), slope, log_slope = response
        squared = dot(h, h)
        direction = h * column(np.where(squared > 0, squared, 1.0) ** -0.5)
        width_in = h.shape[1]
        draw = haar.image if self.orthogonal else gaussian_image
        image = draw(self._forward, len(h), part.width or width_in, width_in)
        log_scale = math.log(part.gain) + log_norm - 0.5 * math.log(width_in)
        return Vector(image, log_scale), DenseTape(direction, image, slope, log_slope)

    def _dense_back(self, part: Dense, gradient: Vector, tape: DenseTape) -> Vector:
        """Return f'(a) * g W^T u."""
        width_in, length = tape.direction.shape[1], np.sqrt(dot(gradient.values, gradient.values))
        overlap = dot(tape.image, gradient.values) / np.where(length > 0, length, 1.0)
        delta = self._backward.draw(len(length), width_in)
        if self.orthogonal:
            width_out = tape.image.shape[1]
            log_factor = haar.transposed(self._backward, delta, overlap, tape.direction, width_out)
        else:
            known = (tape.direction != 0).any(axis=1)  # h = 0 reveals nothing: W^T u is an independent vector
            delta += tape.direction * column(np.where(known, overlap - dot(tape.direction, delta), 0.0))
            log_factor = -0.5 * math.log(width_in)
        delta *= tape.slope
        log_scale = gradient.log_scale + np.log(length) + log_factor + math.log(part.gain) + tape.log_slope
        return Vector(delta, log_scale)


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


def _norm(part: Norm, signal: Vector) -> tuple[Vector, NormTape]:
    walks, width = signal.values.shape
    grouped = signal.values.reshape(walks, part.groups, -1)
    if part.kind == "layer":
        grouped = grouped - grouped.mean(axis=2, keepdims=True)
    rms = np.sqrt(np.vecdot(grouped, grouped) / grouped.shape[2])
    output = grouped / rms[..., None]
    log_divisor = np.log(rms.astype(np.float64)) + signal.log_scale[:, None]
    return Vector(output.reshape(walks, width), np.zeros(walks)), NormTape(output, log_divisor)


def _norm_back(part: Norm, gradient: Vector, tape: NormTape) -> Vector:
    """Return (u - mean(u) - y (y . u) / n) / divisor in each group of n units; an RMS norm keeps the mean."""
    u = gradient.values.reshape(tape.output.shape)
    u = u - tape.output * (np.vecdot(u, tape.output) / tape.output.shape[2])[..., None]
    if part.kind == "layer":
        u = u - u.mean(axis=2, keepdims=True)
    least = tape.log_divisor.min(axis=1)
    u = u * np.exp(least[:, None] - tape.log_divisor)[..., None].astype(u.dtype)
    return Vector(u.reshape(gradient.values.shape), gradient.log_scale - least)


def _sum(first: float, one: Vector, second: float, other: Vector) -> Vector:
    """Return first * one + second * other, its components brought to order 1."""
    logs = np.stack([one.log_scale + math.log(first), other.log_scale + math.log(second)])
    largest = logs.max(axis=0)
    shares = np.exp(logs - np.where(np.isfinite(largest), largest, 0.0))
    values = one.values * column(shares[0]) + other.values * column(shares[1])
    rms = np.sqrt(dot(values, values) / values.shape[1])
    values *= column(1 / np.where(rms > 0, rms, 1.0))
    return Vector(values, largest + np.log(rms))


def _vector(signal: Signal) -> Vector:
    return Vector(signal.h, signal.log_norm - 0.5 * np.log(dot(signal.h, signal.h)))


def _log_rms(vector: Vector) -> Array:
    return np.asarray(vector.log_length - 0.5 * math.log(vector.values.shape[1]))

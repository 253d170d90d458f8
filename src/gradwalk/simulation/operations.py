"""What blocks are made of, forward and back: responses, norms, dropout, residual sums, and the products of `products`.

All but the products are deterministic given the signal and the masks, and their transposed Jacobians are applied as
they are, row by row. So two inputs of a network are two rows, each with masks of its own, and several gradients at one
input have an axis more, in front: only the products couple them.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gradwalk.activations import Array
from gradwalk.blocks import Block, Dense, Dropout, Norm, Residual
from gradwalk.simulation.normals import Normals, column, dot
from gradwalk.simulation.products import Multiply, MultiplyPair
from gradwalk.simulation.signal import dropped, respond
from gradwalk.simulation.vectors import Operation, Tape, Vector, paired


@dataclass(frozen=True)
class Start:
    """Replaces the signal by independent components of unit variance."""

    def forward(self, signal: Vector, normals: Normals) -> tuple[Vector, Tape]:
        """Return the random signal."""
        return Vector(normals.draw(*signal.values.shape), np.zeros(len(signal.values))), ()

    def backward(self, gradient: Vector, tape: Tape, normals: Normals) -> Vector:
        """Return the gradient as it is."""
        return gradient


class Stream(NamedTuple):
    """ln of the root mean square of the stream in each row, and its cosine with that of the other input, if any."""

    log_rms: Array
    cosine: Array


@dataclass(frozen=True)
class Measure:
    """Keeps what is reported of the stream, and passes it on; `inputs`: how many go through each network."""

    inputs: int = 1

    def forward(self, signal: Vector, normals: Normals) -> tuple[Vector, Stream]:
        """Return the signal as it is."""
        return signal, Stream(signal.log_rms, row_cosines(signal.values, self.inputs))

    def backward(self, gradient: Vector, tape: Stream, normals: Normals) -> Vector:
        """Return the gradient as it is."""
        return gradient


class Slope(NamedTuple):
    """f'(a) = slope * exp(log_slope), with the mask of dropout; log_slope is -inf where too few units pass."""

    slope: Array
    log_slope: Array


@dataclass(frozen=True)
class Respond:
    """The activation of a weight layer, and its dropout; `least`: the number of units that must pass it."""

    layer: Dense
    least: int = 1

    def forward(self, signal: Vector, normals: Normals) -> tuple[Vector, Slope]:
        """Return dropout(f(a))."""
        response = respond(self.layer.activation, signal.values, signal.log_scale)
        if self.layer.dropout:
            response = dropped(response, normals.mask(signal.values.shape, self.layer.dropout))
        (h, log_norm), slope, log_slope = response
        if self.least > 1:
            log_slope = np.where(np.count_nonzero(slope, axis=1) >= self.least, log_slope, -np.inf)
        squared = dot(h, h)
        log_scale = np.where(squared > 0, log_norm - 0.5 * np.log(squared), -np.inf)
        return Vector(h, log_scale), Slope(slope, log_slope)

    def backward(self, gradient: Vector, tape: Slope, normals: Normals) -> Vector:
        """Return f'(a) * u."""
        return Vector(gradient.values * tape.slope, gradient.log_scale + tape.log_slope)


class Divisor(NamedTuple):
    """The output of a norm by groups, and ln of what it divided by, per walk and group."""

    output: Array
    log_divisor: Array


@dataclass(frozen=True)
class Normalise:
    """A norm within each of its groups of units."""

    norm: Norm

    def forward(self, signal: Vector, normals: Normals) -> tuple[Vector, Divisor]:
        """Return the signal divided by its root mean square, for a layer norm after its mean is subtracted."""
        walks, width = signal.values.shape
        grouped = signal.values.reshape(walks, self.norm.groups, -1)
        if self.norm.kind == "layer":
            grouped = grouped - grouped.mean(axis=2, keepdims=True)
        rms = np.sqrt(np.vecdot(grouped, grouped) / grouped.shape[2])
        zero = (rms == 0) | np.isneginf(signal.log_scale)[:, None]  # real norms return 0 then, by their epsilon
        output = grouped * np.divide(1, rms, out=np.zeros_like(rms), where=~zero)[..., None]
        log_divisor = np.where(zero, 0.0, np.log(rms.astype(np.float64)) + signal.log_scale[:, None])
        return Vector(output.reshape(walks, width), np.zeros(walks)), Divisor(output, log_divisor)

    def backward(self, gradient: Vector, tape: Divisor, normals: Normals) -> Vector:
        """Return (u - mean(u) - y (y . u) / n) / divisor in each group of n units; an RMS norm keeps the mean."""
        u = gradient.values.reshape(*gradient.values.shape[:-1], *tape.output.shape[1:])
        u = u - tape.output * (np.vecdot(u, tape.output) / tape.output.shape[2])[..., None]
        if self.norm.kind == "layer":
            u = u - u.mean(axis=-1, keepdims=True)
        least = tape.log_divisor.min(axis=1)
        u = u * np.exp(least[:, None] - tape.log_divisor)[..., None].astype(u.dtype)
        return Vector(u.reshape(gradient.values.shape), gradient.log_scale - least)


@dataclass(frozen=True)
class Drop:
    """Dropout of the signal itself."""

    rate: float

    def forward(self, signal: Vector, normals: Normals) -> tuple[Vector, Array]:
        """Return the signal times a random mask."""
        mask = normals.mask(signal.values.shape, self.rate)
        return Vector(signal.values * mask, signal.log_scale), mask

    def backward(self, gradient: Vector, tape: Array, normals: Normals) -> Vector:
        """Return the gradient times the mask."""
        return Vector(gradient.values * tape, gradient.log_scale)


@dataclass(frozen=True)
class Add:
    """A residual sum: skip * x + scale * branch(x)."""

    branch: tuple[Operation, ...]
    scale: float
    skip: float

    def forward(self, signal: Vector, normals: Normals) -> tuple[Vector, list[Tape]]:
        """Return the sum."""
        branch, tapes = run(self.branch, signal, normals)
        return _sum(self.skip, signal, self.scale, branch), tapes

    def backward(self, gradient: Vector, tape: list[Tape], normals: Normals) -> Vector:
        """Return the sum of the gradients by the two ways."""
        return _sum(self.skip, gradient, self.scale, back(self.branch, gradient, tape, normals))


def operations(block: Block, orthogonal: bool, inputs: int = 1) -> tuple[Operation, ...]:
    """Return the operations of a block in the order of the forward pass, for one or two inputs per network."""
    if isinstance(block, Dense):
        multiply = Multiply if inputs == 1 else MultiplyPair
        return Respond(block), multiply(block, orthogonal)
    if isinstance(block, Norm):
        return (Normalise(block),)
    if isinstance(block, Dropout):
        return (Drop(block.rate),)
    if isinstance(block, Residual):
        return (Add(operations(block.branch, orthogonal, inputs), block.scale, block.skip),)
    return tuple(operation for part in block.parts for operation in operations(part, orthogonal, inputs))


def row_cosines(rows: Array, inputs: int) -> Array:
    """Return the cosine of each row with that of the other input of its network; 1 for one input per network."""
    if inputs == 1:
        return np.ones(len(rows))
    one, other = paired(rows)
    return np.tile(dot(one, other) / np.sqrt(dot(one, one) * dot(other, other)), 2)


def run(sequence: tuple[Operation, ...], signal: Vector, normals: Normals) -> tuple[Vector, list[Tape]]:
    """Return the output of operations applied one after another, and the tape of each."""
    tapes = []
    for operation in sequence:
        signal, tape = operation.forward(signal, normals)
        tapes.append(tape)
    return signal, tapes


def back(sequence: tuple[Operation, ...], gradient: Vector, tapes: list[Tape], normals: Normals) -> Vector:
    """Return the gradient with respect to the input of operations applied one after another."""
    for operation, tape in zip(reversed(sequence), reversed(tapes), strict=True):
        gradient = operation.backward(gradient, tape, normals)
    return gradient


def _sum(first: float, one: Vector, second: float, other: Vector) -> Vector:
    """Return first * one + second * other, its components brought to order 1."""
    logs = np.stack([one.log_scale + math.log(first), other.log_scale + math.log(second)])
    largest = logs.max(axis=0)
    shares = np.exp(logs - np.where(np.isfinite(largest), largest, 0.0))
    values = one.values * column(shares[0]) + other.values * column(shares[1])
    rms = np.sqrt(dot(values, values) / values.shape[-1])
    values *= column(1 / np.where(rms > 0, rms, 1.0))
    return Vector(values, largest + np.log(rms))

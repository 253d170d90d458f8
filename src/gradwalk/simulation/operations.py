"""What blocks are made of, forward and back: responses, products with random matrices, norms, dropout, residual sums.

A weight matrix W that mapped h to a = g W h takes a gradient u back as
    W^T u = h (a . u) / (g |h|^2) + (I - h h^T / |h|^2) xi |u| / sqrt(N),   xi standard normal,
exact in law given all that the forward pass reveals of W; Haar matrices likewise, see `haar`. Norms, dropout and
residual sums are deterministic given the signal and the masks, and their transposed Jacobians are applied as they are.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from gradwalk.activations import Array
from gradwalk.blocks import Block, Dense, Dropout, Norm, Residual
from gradwalk.simulation import haar
from gradwalk.simulation.normals import Normals, column, dot, gaussian_image
from gradwalk.simulation.signal import dropped, respond

Tape = Any  # what an operation keeps for its own backward pass: arrays with one row per walk, in tuples and lists


class Vector(NamedTuple):
    """One vector per walk, exp(log_scale) * values; log_scale is -inf where the vector is zero."""

    values: Array
    log_scale: Array

    @property
    def log_length(self) -> Array:
        """ln of the length of each vector."""
        return np.asarray(self.log_scale + 0.5 * np.log(dot(self.values, self.values)))

    @property
    def log_rms(self) -> Array:
        """ln of the root mean square of the components of each vector."""
        return np.asarray(self.log_length - 0.5 * math.log(self.values.shape[1]))


class Operation(Protocol):
    """One operation on the signal of many walks, with its transposed Jacobian."""

    def forward(self, signal: Vector, normals: Normals) -> tuple[Vector, Tape]:
        """Return the output and what the backward pass needs."""

    def backward(self, gradient: Vector, tape: Tape, normals: Normals) -> Vector:
        """Return the gradient with respect to the input, given that with respect to the output."""


@dataclass(frozen=True)
class Start:
    """Replaces the signal by independent components of unit variance."""

    def forward(self, signal: Vector, normals: Normals) -> tuple[Vector, Tape]:
        """Return the random signal."""
        return Vector(normals.draw(*signal.values.shape), np.zeros(len(signal.values))), ()

    def backward(self, gradient: Vector, tape: Tape, normals: Normals) -> Vector:
        """Return the gradient as it is."""
        return gradient


@dataclass(frozen=True)
class Measure:
    """Keeps ln of the root mean square of the signal, and passes it on."""

    def forward(self, signal: Vector, normals: Normals) -> tuple[Vector, Array]:
        """Return the signal as it is."""
        return signal, signal.log_rms

    def backward(self, gradient: Vector, tape: Array, normals: Normals) -> Vector:
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


class Image(NamedTuple):
    """What a random matrix has revealed of itself: the unit vector along h, zero if h is, and its image."""

    direction: Array
    image: Array


@dataclass(frozen=True)
class Multiply:
    """The product g W h of a weight layer; where h is zero, nothing of W is revealed."""

    layer: Dense
    orthogonal: bool

    def forward(self, signal: Vector, normals: Normals) -> tuple[Vector, Image]:
        """Return g W h."""
        walks, width_in = signal.values.shape
        squared = dot(signal.values, signal.values)
        direction = signal.values * column(np.where(squared > 0, squared, 1.0) ** -0.5)
        draw = haar.image if self.orthogonal else gaussian_image
        image = draw(normals, walks, self.layer.width or width_in, width_in)
        return Vector(image, math.log(self.layer.gain) + signal.log_rms), Image(direction, image)

    def backward(self, gradient: Vector, tape: Image, normals: Normals) -> Vector:
        """Return g W^T u."""
        width_in, length = tape.direction.shape[1], np.sqrt(dot(gradient.values, gradient.values))
        overlap = dot(tape.image, gradient.values) / np.where(length > 0, length, 1.0)
        delta = normals.draw(len(length), width_in)
        if self.orthogonal:
            log_factor = haar.transposed(normals, delta, overlap, tape.direction, tape.image.shape[1])
        else:
            known = (tape.direction != 0).any(axis=1)  # h = 0 reveals nothing: W^T u is an independent vector
            delta += tape.direction * column(np.where(known, overlap - dot(tape.direction, delta), 0.0))
            log_factor = -0.5 * math.log(width_in)
        return Vector(delta, gradient.log_scale + np.log(length) + log_factor + math.log(self.layer.gain))


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
        rms[rms == 0] = 1  # the epsilon of real norms makes the output 0 as well
        output = grouped / rms[..., None]
        log_divisor = np.log(rms.astype(np.float64)) + signal.log_scale[:, None]
        return Vector(output.reshape(walks, width), np.zeros(walks)), Divisor(output, log_divisor)

    def backward(self, gradient: Vector, tape: Divisor, normals: Normals) -> Vector:
        """Return (u - mean(u) - y (y . u) / n) / divisor in each group of n units; an RMS norm keeps the mean."""
        u = gradient.values.reshape(tape.output.shape)
        u = u - tape.output * (np.vecdot(u, tape.output) / tape.output.shape[2])[..., None]
        if self.norm.kind == "layer":
            u = u - u.mean(axis=2, keepdims=True)
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


def operations(block: Block, orthogonal: bool) -> tuple[Operation, ...]:
    """Return the operations of a block in the order of the forward pass."""
    if isinstance(block, Dense):
        return Respond(block), Multiply(block, orthogonal)
    if isinstance(block, Norm):
        return (Normalise(block),)
    if isinstance(block, Dropout):
        return (Drop(block.rate),)
    if isinstance(block, Residual):
        return (Add(operations(block.branch, orthogonal), block.scale, block.skip),)
    return tuple(operation for part in block.parts for operation in operations(part, orthogonal))


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
    rms = np.sqrt(dot(values, values) / values.shape[1])
    values *= column(1 / np.where(rms > 0, rms, 1.0))
    return Vector(values, largest + np.log(rms))

"""Vectors of many walks at any scale, and what an operation does with them."""

import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from gradwalk.activations import Array
from gradwalk.simulation.normals import Normals, dot

Tape = Any  # what an operation keeps for its own backward pass: arrays with one row per walk, in tuples and lists


class Vector(NamedTuple):
    """One vector per row, exp(log_scale) * values; log_scale is -inf where the vector is zero.

    A row is a walk, or one of the two inputs of a walk: the rows of the second inputs follow those of the first.
    Several gradients at one input have an axis more, in front.
    """

    values: Array
    log_scale: Array

    @property
    def log_length(self) -> Array:
        """ln of the length of each vector."""
        return np.asarray(self.log_scale + 0.5 * np.log(dot(self.values, self.values)))

    @property
    def log_rms(self) -> Array:
        """ln of the root mean square of the components of each vector."""
        return np.asarray(self.log_length - 0.5 * math.log(self.values.shape[-1]))


class Operation(Protocol):
    """One operation on the signal of many walks, with its transposed Jacobian."""

    def forward(self, signal: Vector, normals: Normals) -> tuple[Vector, Tape]:
        """Return the output and what the backward pass needs."""

    def backward(self, gradient: Vector, tape: Tape, normals: Normals) -> Vector:
        """Return the gradient with respect to the input, given that with respect to the output."""


def paired(rows: Array) -> Array:
    """Return the rows of the first inputs and those of the second along an axis of their own, in front."""
    return rows.reshape(2, -1, *rows.shape[1:])

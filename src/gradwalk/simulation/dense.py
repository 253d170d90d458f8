"""The literal network: matrices drawn, signals pushed forward and gradients back, as eq. 1 to 7 say."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gradwalk.activations import Activation, Array, Indices
from gradwalk.simulation.arena import Arena
from gradwalk.simulation.signal import Response, Signal, alive, next_log_scale


class Layer(NamedTuple):
    """What a layer keeps for the way back: the matrix that leads to it, h = f(a), f'(a)."""

    matrix: Array
    log_scale: Array
    response: Response
    dead: int


class DenseSampler:
    """Draws the networks of a block of walks layer by layer, matrices and all."""

    luck = 0.0

    def __init__(self, activation: Activation, weights: str, arena: Arena, seed: np.random.SeedSequence) -> None:
        forward, backward = seed.spawn(2)
        self.activation, self.orthogonal, self.arena = activation, weights == "orthogonal", arena
        self._forward, self._backward = np.random.default_rng(forward), np.random.default_rng(backward)

    @staticmethod
    def bytes_a_layer(width_in: int, width_out: int) -> int:
        """Return how much of a layer of one walk stays in memory until the way back."""
        return 8 * width_out * (width_in + 2) + 40

    def mark(self) -> Any:
        """Return where the forward draws stand: rewind to it and the same layers come again."""
        return self._forward.bit_generator.state

    def rewind(self, mark: Any) -> None:
        """Go back to where mark() was called."""
        self._forward.bit_generator.state = mark

    def first(self, walks: int, width: int) -> Layer:
        """Return layer 0, whose pre-activations are independent and of unit variance."""

        def draw(rows: Indices) -> Array:
            return self._forward.standard_normal((len(rows), width))

        return self._layer(np.empty((walks, 0, 0)), draw, np.zeros(walks))

    def forward(self, below: Signal, width: int, gain: float) -> Layer:
        """Return the layer above `below`: a = g W h."""
        matrix = self.arena.take((*below.h.shape[:1], width, below.h.shape[1]), np.float64)

        def draw(rows: Indices) -> Array:
            again = matrix if len(rows) == len(matrix) else np.empty((len(rows), *matrix.shape[1:]))
            self._fill(again)
            if again is not matrix:
                matrix[rows] = again
            return _image(again, below.h[rows])

        return self._layer(matrix, draw, next_log_scale(below, gain))

    def top(self, below: Signal, width: int, gain: float) -> tuple[Array, Array]:
        """Return ln of the scale of the last layer, and a random gradient there, taken through the last matrix."""
        matrix = np.empty((*below.h.shape[:1], width, below.h.shape[1]))
        self._fill(matrix)
        delta = self._backward.standard_normal(matrix.shape[:2])
        return next_log_scale(below, gain), _back(matrix, delta / np.linalg.norm(delta, axis=1)[:, None])

    def backward(self, gradient: Array, layer: Layer) -> tuple[Array, Array]:
        """Return the gradient taken through f' and the matrix of `layer`, and ln of how |delta| grew at gain 1."""
        delta = layer.response.slope * gradient  # eq. 3, E4
        norm = np.linalg.norm(delta, axis=1)
        return _back(layer.matrix, delta / norm[:, None]), np.log(norm) + layer.response.log_slope

    def _layer(self, matrix: Array, draw: Callable[[Indices], Array], log_scale: Array) -> Layer:
        _, response, dead = alive(self.activation, draw, log_scale)
        return Layer(matrix, log_scale, response, dead)

    def _fill(self, matrix: Array) -> None:
        """Draw matrices whose entries have variance 1 / width_in: Gaussian, or with Haar's rows or columns."""
        count, width, width_in = matrix.shape
        if not self.orthogonal:
            self._forward.standard_normal(out=matrix)
            matrix /= math.sqrt(width_in)
            return
        tall = self._forward.standard_normal((count, max(width, width_in), min(width, width_in)))
        q, r = np.linalg.qr(tall)
        q *= np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]  # without it the law of q is not Haar's
        matrix[...] = q.transpose(0, 2, 1) if width < width_in else q * math.sqrt(width / width_in)


def _image(matrix: Array, h: Array) -> Array:
    """Return W h with h brought to the length sqrt(width_in): components of unit variance."""
    unit = h * (math.sqrt(h.shape[1]) / np.linalg.norm(h, axis=1))[:, None]
    return np.asarray((matrix @ unit[..., None])[..., 0])


def _back(matrix: Array, delta: Array) -> Array:
    """Return W^T delta; below layer 0 there is no matrix and nothing to return."""
    return np.asarray((delta[:, None, :] @ matrix)[:, 0, :]) if matrix.size else delta

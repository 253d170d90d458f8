"""The literal network of eq. 1 to 7: matrices are drawn, signals propagated forward and gradients back."""

import math
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np

from gradwalk.activations import Activation, Array, Indices
from gradwalk.checks import Weights
from gradwalk.simulation.arena import Arena
from gradwalk.simulation.signal import Response, Signal, active, next_log_scale


class DenseLayer(NamedTuple):
    """What a layer keeps for the backward pass: the matrix that leads to it, h = f(a) and f'(a)."""

    matrix: Array
    log_scale: Array
    response: Response
    resampled: int

    @property
    def output(self) -> Signal:
        """The signal that the layer hands on: f(a)."""
        return self.response.signal


class DenseSampler:
    """Draws the networks of a block of walks layer by layer, including their matrices: O(width^2) per layer.

    See `Sampler` for the methods. `luck` is 0: there are no control variates.
    """

    block_factor: ClassVar[float] = 1.0
    kept_bytes: ClassVar[int | None] = None

    def __init__(self, activation: Activation, weights: Weights, arena: Arena, seed: np.random.SeedSequence) -> None:
        forward, backward = seed.spawn(2)
        self.activation, self._weights, self.arena = activation, weights, arena
        self._forward, self._backward = np.random.default_rng(forward), np.random.default_rng(backward)
        self.luck: Array | float = 0.0

    @staticmethod
    def layer_bytes(width_in: int, width_out: int) -> int:
        """Return how many bytes of one layer of one walk stay in memory until the backward pass."""
        return 8 * width_out * (width_in + 2) + 40

    def mark(self) -> Callable[[], None]:
        """Return a function that rewinds the forward draws to this point."""
        bits = self._forward.bit_generator
        state = bits.state

        def rewind() -> None:
            bits.state = state

        return rewind

    def first(self, walks: int, width: int) -> DenseLayer:
        """Return layer 0, whose pre-activations are independent with unit variance."""

        def draw(rows: Indices) -> Array:
            return self._forward.standard_normal((len(rows), width))

        return self._layer(np.empty((walks, 0, 0)), draw, np.zeros(walks))

    def forward(self, below: Signal, width: int, gain: float) -> DenseLayer:
        """Return the layer above `below`, with pre-activations a = g W h (eq. 1)."""
        matrix = self.arena.take((*below.h.shape[:1], width, below.h.shape[1]), np.float64)

        def draw(rows: Indices) -> Array:
            again = matrix if len(rows) == len(matrix) else np.empty((len(rows), *matrix.shape[1:]))
            self._fill(again)
            if again is not matrix:
                matrix[rows] = again
            return _image(again, below.h[rows])

        return self._layer(matrix, draw, next_log_scale(below, gain))

    def top(self, below: Signal, width: int, gain: float) -> tuple[Array, Array]:
        """Return ln of the scale of the last layer, and W^T delta for a random delta of unit norm there."""
        matrix = np.empty((*below.h.shape[:1], width, below.h.shape[1]))
        self._fill(matrix)
        delta = self._backward.standard_normal(matrix.shape[:2])
        return next_log_scale(below, gain), _back(matrix, delta / np.linalg.norm(delta, axis=1)[:, None])

    def backward(self, gradient: Array, layer: DenseLayer) -> tuple[Array, Array]:
        """Return the gradient propagated through f' and the matrix of `layer`, and ln of the growth of |delta|."""
        delta = layer.response.slope * gradient  # eq. 3, E4
        norm = np.linalg.norm(delta, axis=1)
        return _back(layer.matrix, delta / norm[:, None]), np.log(norm) + layer.response.log_slope

    def _layer(self, matrix: Array, draw: Callable[[Indices], Array], log_scale: Array) -> DenseLayer:
        _, response, resampled = active(self.activation, draw, log_scale)
        return DenseLayer(matrix, log_scale, response, resampled)

    def _fill(self, matrix: Array) -> None:
        matrix[...] = random_matrices(self._forward, matrix.shape, self._weights)


def random_matrices(rng: np.random.Generator, shape: tuple[int, ...], weights: Weights) -> Array:
    """Return matrices (count, width, width_in) with entries of variance 1 / width_in: Gaussian, or Haar orthogonal."""
    count, width, width_in = shape
    if weights == "gaussian":
        return np.asarray(rng.standard_normal(shape) / math.sqrt(width_in))
    q, r = np.linalg.qr(rng.standard_normal((count, max(width, width_in), min(width, width_in))))
    q *= np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]  # else q is not distributed as Haar's measure
    return np.asarray(q.transpose(0, 2, 1) if width < width_in else q * math.sqrt(width / width_in))


def _image(matrix: Array, h: Array) -> Array:
    """Return W h for h rescaled to length sqrt(width_in): components of unit variance."""
    unit = h * (math.sqrt(h.shape[1]) / np.linalg.norm(h, axis=1))[:, None]
    return np.asarray((matrix @ unit[..., None])[..., 0])


def _back(matrix: Array, delta: Array) -> Array:
    """Return W^T delta, or delta itself below layer 0, where there is no matrix."""
    return np.asarray((delta[:, None, :] @ matrix)[:, 0, :]) if matrix.size else delta

"""The exact sampler: the joint law of a random network's forward and backward pass, in O(width) per layer.

A Gaussian matrix W enters twice. Forward, W h has independent components of variance |h|^2 / N. Backward, given
a = g W h, the part of W that acts on h is known and the rest is an independent Gaussian matrix:
    W^T delta = h (a . delta) / (g |h|^2) + (I - h h^T / |h|^2) xi |delta| / sqrt(N),   xi standard normal.
A Haar orthogonal matrix preserves norms: W h is uniform on a sphere, and so is the part of W^T delta orthogonal to h.
Both are exact in law, including the correlation between the passes. Components are drawn in single precision and
log-norms are accumulated in double; the rounding error of a step, about 1e-7, is far below its spread.
"""

import math
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np

from gradwalk.activations import Activation, Array, Indices
from gradwalk.blocks import Dense
from gradwalk.checks import Weights
from gradwalk.simulation import haar
from gradwalk.simulation.arena import Arena
from gradwalk.simulation.normals import Normals, column, dot, gaussian_image, log_chi2_mean
from gradwalk.simulation.signal import Response, Signal, active, dropped, next_log_scale

# With a single active unit, delta is its component along h alone, which single precision cancels to 0 in about one
# such layer in 1e7; this bound keeps its logarithm finite.
_LEAST = 1e-20


class ExactLayer(NamedTuple):
    """What a layer keeps for the backward pass, one row per walk: a = exp(log_scale) x, h = f(a) and f'(a)."""

    x: Array
    log_scale: Array
    response: Response
    resampled: int

    @property
    def output(self) -> Signal:
        """The signal that the layer hands on: f(a)."""
        return self.response.signal


class Gradient(NamedTuple):
    """All that the backward pass needs of delta: x . delta / |delta| per walk, and the width of the layer."""

    overlap: Array
    width: int


class ForwardSampler:
    """Draws the forward pass of a chain at one input: the part that all exact samplers of gradients share.

    A chain is described by its activation, or by the weight layer that it repeats, with dropout if there is any. See
    `Sampler` for the methods.
    """

    block_factor: ClassVar[float] = 1.0

    def __init__(
        self, network: Activation | Dense, weights: Weights, arena: Arena, seed: np.random.SeedSequence
    ) -> None:
        forward, backward = seed.spawn(2)
        layer = network if isinstance(network, Dense) else Dense(network)
        self.activation, self.dropout = layer.activation, layer.dropout
        self.orthogonal, self.arena = weights == "orthogonal", arena
        self._forward, self._backward = Normals(forward), Normals(backward)
        self.luck: Array | float = 0.0

    @classmethod
    def layer_bytes(cls, width_in: int, width_out: int) -> int:
        """Return how many bytes of one layer of one walk stay in memory until the backward pass."""
        return 12 * width_out + 40

    def mark(self) -> Callable[[], None]:
        """Return a function that rewinds the forward draws to this point."""
        return self._forward.mark()

    def first(self, walks: int, width: int) -> ExactLayer:
        """Return layer 0, whose pre-activations are independent with unit variance."""
        return self._layer(lambda rows: self._forward.draw(len(rows), width), np.zeros(walks))

    def forward(self, below: Signal, width: int, gain: float) -> ExactLayer:
        """Return the layer above `below`, with pre-activations a = g W h (eq. 1)."""
        width_in = below.h.shape[1]
        return self._layer(lambda rows: self._image(len(rows), width, width_in), next_log_scale(below, gain))

    def _image(self, walks: int, width: int, width_in: int) -> Array:
        """Return W h for an h of length sqrt(width_in): components of unit variance."""
        return (haar.image if self.orthogonal else gaussian_image)(self._forward, walks, width, width_in)

    def _layer(self, draw: Callable[[Indices], Array], log_scale: Array) -> ExactLayer:
        x, (signal, slope, log_slope), resampled = active(self.activation, draw, log_scale, self._drop)
        keep = self.arena.keep
        kept = Response(Signal(keep(signal.h), signal.log_norm), keep(slope), log_slope)
        return ExactLayer(keep(x), log_scale, kept, resampled)

    def _drop(self, response: Response) -> Response:
        if not self.dropout:
            return response
        return dropped(response, self._forward.mask(response.slope.shape, self.dropout))


class ExactSampler(ForwardSampler):
    """Draws the layers of a block of walks one by one without their matrices: O(width) per layer.

    See `Sampler` for the methods. For Gaussian weights `luck` holds two control variates per walk: the sums over the
    layers of ln |x|^2 and of ln |xi|^2, less their expectations.
    """

    def top(self, below: Signal, width: int, gain: float) -> tuple[Array, Gradient]:
        """Return ln of the scale of the last layer, and a random gradient there."""
        walks, width_in = below.h.shape
        x, delta = self._image(walks, width, width_in), self._backward.draw(walks, width)
        return next_log_scale(below, gain), Gradient(dot(x, delta) / np.sqrt(dot(delta, delta)), width)

    def backward(self, gradient: Gradient, layer: ExactLayer) -> tuple[Gradient, Array]:
        """Return the gradient at `layer`, one layer down, and ln of the factor by which |delta| grows at gain 1."""
        (h, _), slope, log_slope = layer.response
        delta = self._backward.draw(*h.shape)
        if self.orthogonal:
            along = h / column(np.sqrt(dot(h, h)))
            log_factor = haar.transposed(self._backward, delta, gradient.overlap, along, gradient.width)
        else:
            norms = np.stack([np.vecdot(layer.x, layer.x), np.vecdot(delta, delta)], axis=1)
            self.luck += np.log(norms) - log_chi2_mean(h.shape[1])
            squared = dot(h, h)
            delta += h * column(gradient.overlap / np.sqrt(squared) - dot(h, delta) / squared)
            log_factor = -0.5 * math.log(h.shape[1])
        delta *= slope
        squared = np.maximum(dot(delta, delta), _LEAST)
        overlap = dot(layer.x, delta) / np.sqrt(squared)
        return Gradient(overlap, h.shape[1]), log_factor + log_slope + 0.5 * np.log(squared)

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
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import digamma

from gradwalk.activations import Activation, Array, Indices
from gradwalk.checks import Weights
from gradwalk.simulation.arena import Arena
from gradwalk.simulation.signal import Response, Signal, active, next_log_scale

# With a single active unit, delta is its component along h alone, which single precision cancels to 0 in about one
# such layer in 1e7; this bound keeps its logarithm finite.
_LEAST = 1e-20


class ExactLayer(NamedTuple):
    """What a layer keeps for the backward pass, one row per walk: a = exp(log_scale) x, h = f(a) and f'(a)."""

    x: Array
    log_scale: Array
    response: Response
    resampled: int


class Gradient(NamedTuple):
    """All that the backward pass needs of delta: x . delta / |delta| per walk, and the width of the layer."""

    overlap: Array
    width: int


class ExactSampler:
    """Draws the layers of a block of walks one by one without their matrices: O(width) per layer.

    See `Sampler` for the methods. For Gaussian weights `luck` holds two control variates per walk: the sums over the
    layers of ln |x|^2 and of ln |xi|^2, less their expectations.
    """

    def __init__(self, activation: Activation, weights: Weights, arena: Arena, seed: np.random.SeedSequence) -> None:
        forward, backward = seed.spawn(2)
        self.activation, self.orthogonal, self.arena = activation, weights == "orthogonal", arena
        self._forward, self._backward = _Normals(forward), _Normals(backward)
        self.luck: Array | float = 0.0

    @staticmethod
    def layer_bytes(width_in: int, width_out: int) -> int:
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

    def top(self, below: Signal, width: int, gain: float) -> tuple[Array, Gradient]:
        """Return ln of the scale of the last layer, and a random gradient there."""
        walks, width_in = below.h.shape
        x, delta = self._image(walks, width, width_in), self._backward.draw(walks, width)
        return next_log_scale(below, gain), Gradient(_dot(x, delta) / np.sqrt(_dot(delta, delta)), width)

    def backward(self, gradient: Gradient, layer: ExactLayer) -> tuple[Gradient, Array]:
        """Return the gradient at `layer`, one layer down, and ln of the factor by which |delta| grows at gain 1."""
        (h, _), slope, log_slope = layer.response
        delta = self._backward.draw(*h.shape)
        if self.orthogonal:
            log_factor = self._through_haar(delta, gradient, h)
        else:
            norms = np.stack([np.vecdot(layer.x, layer.x), np.vecdot(delta, delta)], axis=1)
            self.luck += np.log(norms) - _log_chi2_mean(h.shape[1])
            squared = _dot(h, h)
            delta += h * _column(gradient.overlap / np.sqrt(squared) - _dot(h, delta) / squared)
            log_factor = -0.5 * math.log(h.shape[1])
        delta *= slope
        squared = np.maximum(_dot(delta, delta), _LEAST)
        overlap = _dot(layer.x, delta) / np.sqrt(squared)
        return Gradient(overlap, h.shape[1]), log_factor + log_slope + 0.5 * np.log(squared)

    def _image(self, walks: int, width: int, width_in: int) -> Array:
        """Return W h for an h of length sqrt(width_in): components of unit variance."""
        x = self._forward.draw(walks, width)
        if self.orthogonal:
            squared = _dot(x, x)
            if width < width_in:  # x is a projection of a vector uniform on the sphere of the larger space
                squared += 2 * self._forward.rng.standard_gamma((width_in - width) / 2, walks)
            x *= _column(math.sqrt(max(width_in, width)) / np.sqrt(squared))
        return x

    def _through_haar(self, delta: Array, gradient: Gradient, h: Array) -> float:
        """Turn standard normal `delta` in place into W^T of a unit vector with that overlap; return ln of W's scale."""
        n, width_out = delta.shape[1], gradient.width
        along = h / _column(np.sqrt(_dot(h, h)))
        cosine = gradient.overlap / math.sqrt(max(n, width_out))
        rest = np.maximum(1 - cosine**2, 0.0)
        if 1 < n < width_out:  # only a random part of the component orthogonal to a passes
            rest *= self._backward.rng.beta((n - 1) / 2, (width_out - n) / 2, len(rest))
        delta -= along * _column(_dot(along, delta))
        delta *= _column(np.sqrt(rest / _dot(delta, delta)) if n > 1 else np.zeros(len(rest)))
        delta += along * _column(cosine)
        return 0.5 * math.log(max(width_out / n, 1.0))

    def _layer(self, draw: Callable[[Indices], Array], log_scale: Array) -> ExactLayer:
        x, (signal, slope, log_slope), resampled = active(self.activation, draw, log_scale)
        keep = self.arena.keep
        kept = Response(Signal(keep(signal.h), signal.log_norm), keep(slope), log_slope)
        return ExactLayer(keep(x), log_scale, kept, resampled)


class _Normals:
    """Standard normal numbers in single precision by the Box-Muller transform, three times as fast as NumPy's.

    The radius has 32 random bits, so no number exceeds 6.7 standard deviations; of 4e10 normal numbers one would.
    Numbers are generated in chunks, because calls on short arrays cost more than the numbers themselves.
    """

    _CHUNK = 1 << 16

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self.bits = np.random.SFC64(seed)
        self.rng = np.random.Generator(self.bits)
        self._ready = np.empty(0, dtype=np.float32)

    def mark(self) -> Callable[[], None]:
        """Return a function that rewinds to this point, to be called once: callers write into the numbers they get."""
        state, ready = self.bits.state, self._ready.copy()

        def rewind() -> None:
            self.bits.state, self._ready = state, ready

        return rewind

    def draw(self, rows: int, columns: int) -> Array:
        """Return an array of normal numbers that the caller may overwrite."""
        count = rows * columns
        if len(self._ready) < count:
            self._ready = self._make(max(self._CHUNK, count + count % 2))
        numbers, self._ready = self._ready[:count], self._ready[count:]
        return numbers.reshape(rows, columns)

    def _make(self, count: int) -> Array:
        values = self.bits.random_raw(count // 2).view(np.uint32).astype(np.float32)
        radius, angle = values[: count // 2], values[count // 2 :]
        radius *= np.float32(2.0**-32)
        np.maximum(radius, np.float32(2.0**-33), out=radius)
        np.log(radius, out=radius)
        radius *= np.float32(-2)
        np.sqrt(radius, out=radius)
        angle *= np.float32(2 * math.pi / 2**32)
        cosine = np.cos(angle)
        np.sin(angle, out=angle)
        angle *= radius
        radius *= cosine
        return values


@lru_cache(maxsize=1024)
def _log_chi2_mean(n: int) -> float:
    return float(digamma(n / 2)) + math.log(2)


def _dot(left: Array, right: Array) -> Array:
    return np.asarray(np.vecdot(left, right), dtype=np.float64)


def _column(values: Array) -> Array:
    return values.astype(np.float32)[:, None]

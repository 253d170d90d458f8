"""The signal of one layer at any scale: f and f' of pre-activations whose common scale is kept as a logarithm."""

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

import numpy as np

from gradwalk.activations import Activation, Array, Indices
from gradwalk.simulation.normals import dot

# ln of the scales up to which, and down to whose inverse, f is evaluated as it is, in single precision. Beyond them it
# must be homogeneous or constant.
_LOG_SCALE = 25.0
ATTEMPTS = 2000
_SATURATED = 1e-2  # mean square of f'(a) below which rounding errors of f(a) matter to it
_FAINT = 1e-6  # squared norm of f'(a) below which single precision is not enough
_TINY = 1e-30  # squared norm of f(a) below which single precision underflows


class Output(Protocol):
    """What a layer hands on: all that the layer above needs of it."""

    @property
    def log_norm(self) -> Array:
        """ln of its length, per walk."""

    @property
    def width(self) -> int:
        """The number of components."""

    def detached(self) -> Self:
        """Return the same with its arrays outside the arena, which the next segment overwrites."""


class Signal(NamedTuple):
    """The output of a layer, one row per walk: h up to its length, and the logarithm of its length."""

    h: Array
    log_norm: Array

    def detached(self) -> "Signal":
        """Return the same with its array outside the arena, which the next segment overwrites."""
        return Signal(self.h.copy(), self.log_norm)

    @property
    def width(self) -> int:
        """The number of components."""
        return int(self.h.shape[-1])


class Length(NamedTuple):
    """The output of a layer of which only the length matters: its logarithm, and the number of components."""

    log_norm: Array
    width: int

    def detached(self) -> "Length":
        """Return the same: nothing of it is in the arena."""
        return self


class Response(NamedTuple):
    """f and f' of a layer's pre-activations, one row per walk; f'(a) is slope * exp(log_slope)."""

    signal: Signal
    slope: Array
    log_slope: Array


def respond(activation: Activation, x: Array, log_scale: Array) -> Response:
    """Return f(a) and f'(a) for a = exp(log_scale) x.

    f is evaluated at scales between exp(-25) and exp(25). Beyond them, f is evaluated at the nearer bound, which gives
    the right h if f is constant there, and up to its length if f is homogeneous. If f is neither, ValueError is raised.
    """
    inside = np.abs(log_scale).max() <= _LOG_SCALE
    held = log_scale if inside else np.clip(log_scale, -_LOG_SCALE, _LOG_SCALE)
    a = x * np.exp(held).astype(x.dtype)[:, None]
    h = np.asarray(activation.f(a)).astype(x.dtype, copy=False)
    slope, log_slope = _slope(activation, a, h)
    squared = dot(h, h)
    degree = None if inside else _degree(activation, a, h, log_scale != held)
    if squared.min() < _TINY:
        tiny = np.flatnonzero(squared < _TINY)
        exact = h[tiny].astype(np.float64)
        squared[tiny] = dot(exact, exact)
        h = h.copy()
        h[tiny] = exact / np.sqrt(np.where(squared[tiny] > 0, squared[tiny], 1.0))[:, None]
    log_norm = 0.5 * np.log(squared)
    if degree is not None:
        log_norm += degree * (log_scale - held)
    if not log_norm.max() < np.inf:
        raise ValueError(
            f"simulate: the signal of {activation} exceeds the range of floating point; choose a gain closer to the "
            "unbiased one"
        )
    return Response(Signal(h, log_norm), slope, log_slope)


def dropped(response: Response, mask: Array) -> Response:
    """Return the response with f(a) and f'(a) times a mask of dropout."""
    (h, log_norm), slope, log_slope = response
    before, h, slope = dot(h, h), h * mask, slope * mask
    kept = dot(h, h) / np.where(before > 0, before, 1.0)
    faded = np.where((slope != 0).any(axis=1), log_slope, -np.inf)
    return Response(Signal(h, log_norm + 0.5 * np.log(kept)), slope, faded)


def _slope(activation: Activation, a: Array, h: Array) -> tuple[Array, Array]:
    """Return f'(a) as a factor and ln of another factor, so that nearly saturated layers do not underflow."""
    given = activation.slope_given
    slope = np.asarray(activation.derivative(a) if given is None else given(a, h)).astype(a.dtype, copy=False)
    squared, log_slope = dot(slope, slope), np.zeros(len(a))
    least = squared.min()
    if given is not None and least < _SATURATED * a.shape[1]:
        saturated = np.flatnonzero(squared < _SATURATED * a.shape[1])
        slope[saturated] = activation.derivative(a[saturated])
        squared[saturated] = dot(slope[saturated], slope[saturated])
        least = squared.min()
    if least < _FAINT:
        faint = np.flatnonzero(squared < _FAINT)
        exact = np.asarray(activation.derivative(a[faint].astype(np.float64)))
        largest = np.abs(exact).max(axis=1)
        slope[faint] = exact / np.where(largest > 0, largest, 1.0)[:, None]
        log_slope[faint] = np.log(largest)
    return slope, log_slope


def active(
    activation: Activation,
    draw: Callable[[Indices], Array],
    log_scale: Array,
    then: Callable[[Response], Response] = lambda response: response,
    inputs: int = 1,
) -> tuple[Array, Response, int]:
    """Return x as drawn by `draw`, the response to it, and the number of layers that were resampled.

    A layer is resampled in the walks in which it is inactive: all its f(a) or all its f'(a) are 0, after what `then`
    does to the response (dropout). Where several inputs go through each network, the rows of one input follow those
    of another, and a layer is resampled for all of them.
    """
    x = draw(np.arange(len(log_scale)))
    response = then(respond(activation, x, log_scale))
    resampled = attempts = 0
    while not (finite := np.isfinite(response.signal.log_norm + response.log_slope)).all():
        rows = rows_to_redraw(finite, inputs)
        resampled, attempts = resampled + rows.size // inputs, attempts + 1
        if attempts > ATTEMPTS:
            raise ValueError(
                f"simulate: {activation} passes no signal or no gradient here: a layer was inactive in {attempts} draws"
            )
        x[rows] = draw(rows)
        again = then(respond(activation, x[rows], log_scale[rows]))
        response.signal.h[rows], response.signal.log_norm[rows] = again.signal
        response.slope[rows], response.log_slope[rows] = again.slope, again.log_slope
    return x, response, resampled


def rows_to_redraw(finite: Array, inputs: int) -> Indices:
    """Return the rows of all inputs of the networks in which one of them is not finite."""
    networks = np.flatnonzero(~finite.reshape(inputs, -1).all(axis=0))
    return np.concatenate([networks + index * (len(finite) // inputs) for index in range(inputs)])


def next_log_scale(below: Output, gain: float) -> Array:
    """Return ln of the standard deviation of the components of a = g W h."""
    return math.log(gain) + below.log_norm - 0.5 * math.log(below.width)


def _degree(activation: Activation, a: Array, h: Array, beyond: Array) -> Array:
    """Return the degree of f at a in the walks that are beyond the scales: 1 if homogeneous, 0 if constant."""
    degree = np.zeros(len(a))
    once, twice = np.linalg.norm(h[beyond], axis=1), np.linalg.norm(activation.f(2 * a[beyond]), axis=1)
    homogeneous, constant = (np.isclose(twice, factor * once, rtol=1e-3, atol=0) for factor in (2, 1))
    if not (homogeneous | constant).all():
        raise ValueError(
            f"simulate: the signal of {activation} leaves the scales from 1e-10 to 1e10, and {activation} is neither "
            "homogeneous nor constant beyond them; choose a gain closer to the unbiased one"
        )
    degree[beyond] = homogeneous
    return degree

"""One layer's signal, at any scale: f and f' of pre-activations whose common scale is carried as a logarithm."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gradwalk.activations import Activation, Array, Indices

# Within these scales f is evaluated as it is, in single precision. Past them it has to be homogeneous there.
_LOG_SCALES = (-25.0, 25.0)
_REDRAWS = 2000
_FAINT = 1e-6  # squared norm of f'(a) below which single precision would lose it


class Signal(NamedTuple):
    """What a layer hands on, a row a walk: h up to its length, and the logarithm of its length."""

    h: Array
    log_norm: Array


class Response(NamedTuple):
    """What a layer makes of its pre-activations: f(a), and f'(a) as slope * exp(log_slope), a row a walk."""

    signal: Signal
    slope: Array
    log_slope: Array


def respond(activation: Activation, x: Array, log_scale: Array) -> Response:
    """Return f(a) and f'(a) for a = exp(log_scale) x.

    A scale past exp(25) or exp(-25) is moved to that bound, and so is h, which is right up to its length for an
    f that is homogeneous there, as all that let a signal get so far are; one that is not is refused.
    """
    inside = log_scale.min() >= _LOG_SCALES[0] and log_scale.max() <= _LOG_SCALES[1]
    held = log_scale if inside else np.clip(log_scale, *_LOG_SCALES)
    a = x * np.exp(held).astype(x.dtype)[:, None]
    h = np.asarray(activation.f(a)).astype(x.dtype, copy=False)
    log_norm = 0.5 * np.log(np.vecdot(h, h).astype(np.float64))
    if not inside:
        moved = log_scale - held
        _require_homogeneous(activation, a[moved != 0], h[moved != 0])
        log_norm += moved
    if not log_norm.max() < np.inf:
        raise ValueError(f"simulate: the signal of {activation} leaves what floating point can hold")
    return Response(Signal(h, log_norm), *_slope(activation, a))


def _slope(activation: Activation, a: Array) -> tuple[Array, Array]:
    """Return f'(a) and a logarithm to add to it, so that layers near saturation do not underflow."""
    slope = np.asarray(activation.derivative(a)).astype(a.dtype, copy=False)
    squared, log_slope = np.vecdot(slope, slope), np.zeros(len(a))
    if squared.min() < _FAINT:
        faint = np.flatnonzero(squared < _FAINT)
        exact = np.asarray(activation.derivative(a[faint].astype(np.float64)))
        largest = np.abs(exact).max(axis=1)
        slope[faint] = exact / np.where(largest > 0, largest, 1.0)[:, None]
        log_slope[faint] = np.log(largest)
    return slope, log_slope


def alive(activation: Activation, draw: Callable[[Indices], Array], log_scale: Array) -> tuple[Array, Response, int]:
    """Return x as `draw` gives it, the response to it, and the number of dead layers.

    Walks in which the layer is dead, all its f(a) or all its f'(a) being 0, get another draw.
    """
    x = draw(np.arange(len(log_scale)))
    response = respond(activation, x, log_scale)
    dead = tries = 0
    while not (lives := np.isfinite(response.signal.log_norm + response.log_slope)).all():
        gone = np.flatnonzero(~lives)
        dead, tries = dead + gone.size, tries + 1
        if tries > _REDRAWS:
            raise ValueError(
                f"simulate: {activation} passes no signal or no gradient here: {tries} layers in a row were dead"
            )
        x[gone] = draw(gone)
        again = respond(activation, x[gone], log_scale[gone])
        response.signal.h[gone], response.signal.log_norm[gone] = again.signal
        response.slope[gone], response.log_slope[gone] = again.slope, again.log_slope
    return x, response, dead


def next_log_scale(below: Signal, gain: float) -> Array:
    """Return ln of the standard deviation of the components of a = g W h."""
    return math.log(gain) + below.log_norm - 0.5 * math.log(below.h.shape[1])


def _require_homogeneous(activation: Activation, a: Array, h: Array) -> None:
    once, twice = float(np.linalg.norm(h)), float(np.linalg.norm(activation.f(2 * a)))
    if not math.isclose(twice, 2 * once, rel_tol=1e-3):
        raise ValueError(
            f"simulate: the signal of {activation} leaves the scales from 1e-10 to 1e10, where it does not "
            "grow in proportion; choose a gain nearer to the unbiased one"
        )

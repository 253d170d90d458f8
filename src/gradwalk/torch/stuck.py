"""The share of units that are dead or saturated: they pass next to nothing back, whatever the example."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from gradwalk.activations import Activation, Array
from gradwalk.torch.calls import Call
from gradwalk.torch.norms import stacks
from gradwalk.torch.weight_layers import is_dense

_STUCK = 0.05  # the share of the largest slope below which a unit passes next to nothing
_FEWEST = 8  # examples needed to call a unit stuck
_FIRST = 4  # numbers per unit that are looked at first: most units are not stuck


def stuck_shares(calls: Sequence[Call], after: Sequence[Activation | None]) -> Array:
    """Return the share of units per layer whose slope is below 5 % of the largest slope for all examples.

    after: the activation that each output goes into. NaN where that is None, and for fewer than 8 examples.
    """
    shares = np.full(len(calls), math.nan)
    places: dict[tuple[Activation, bool], list[int]] = {}
    for place, (call, f) in enumerate(zip(calls, after, strict=True)):
        if f is not None and call.output.dim() > 1 and len(call.output) >= _FEWEST and not call.output.is_complex():
            places.setdefault((f, is_dense(call.module)), []).append(place)
    for (f, dense), own in places.items():
        shares[own] = _shares([calls[place].output for place in own], dense, f)
    return shares


def _shares(outputs: Sequence[Tensor], dense: bool, f: Activation) -> Array:
    shares = np.zeros(len(outputs))
    with torch.no_grad():
        for places, stack in stacks([output[:_FIRST] for output in outputs]):
            suspects = _are_stuck(_by_unit(stack, dense)[:, :_FIRST], f)
            for n in np.flatnonzero(suspects.any(axis=-1)):
                own = _by_unit(outputs[places[n]][None], dense)[..., suspects[n]]
                shares[places[n]] = np.sum(_are_stuck(own, f)) / suspects.shape[-1]
    return shares


def _by_unit(outputs: Tensor, dense: bool) -> Array:
    """Return the outputs of some layers, one column per unit."""
    columns = outputs if dense else outputs.movedim(2, -1)
    precise = columns.to(torch.promote_types(columns.dtype, torch.float32))
    return precise.reshape(len(columns), -1, columns.shape[-1]).cpu().numpy()


def _are_stuck(outputs: Array, f: Activation) -> Array:
    """Return which units have a small slope at all of their outputs."""
    return np.asarray((_slopes(outputs, f) < _STUCK * _largest_slope(f)).all(axis=-2))


@lru_cache(maxsize=64)
def _largest_slope(f: Activation) -> float:
    return float(np.fmax.reduce(_slopes(np.linspace(-8.0, 8.0, 1601), f)))  # not NaN, as a slope at a kink may be


def _slopes(outputs: Array, f: Activation) -> Array:
    """Return how steep an activation is, in double precision where single precision is not enough for its derivative.

    One that overflows on the way, as 1 / cosh(a)**2 does, is the user's own and right in the limit: nobody is warned.
    """
    try:
        with np.errstate(all="raise", under="ignore"):
            return np.asarray(np.abs(f.derivative(outputs)))
    except FloatingPointError:
        with np.errstate(all="ignore"):
            return np.asarray(np.abs(f.derivative(outputs.astype(np.float64))))

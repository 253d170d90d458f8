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
_FIRST = 2  # numbers per unit that are looked at first: most units are not stuck


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
            suspects = _are_stuck(_units(stack, dense)[..., :_FIRST], f)
            for n in np.flatnonzero(suspects.any(axis=-1)):
                own = _units(outputs[places[n]][None], dense)[0].cpu()[suspects[n]]
                shares[places[n]] = np.sum(_are_stuck(own, f)) / suspects.shape[-1]
    return shares


def _units(outputs: Tensor, dense: bool) -> Tensor:
    """Return the outputs of some layers, one row per unit."""
    return outputs.movedim(-1 if dense else 2, 1).flatten(2)


def _are_stuck(outputs: Tensor, f: Activation) -> Array:
    """Return which units, along the dimension before the last, have a small slope at all of their outputs."""
    slopes = np.abs(np.asarray(f.derivative(outputs.double().cpu().numpy())))
    return np.asarray((slopes < _STUCK * _largest_slope(f)).all(axis=-1))


@lru_cache(maxsize=64)
def _largest_slope(f: Activation) -> float:
    return float(np.abs(f.derivative(np.linspace(-8.0, 8.0, 1601))).max())

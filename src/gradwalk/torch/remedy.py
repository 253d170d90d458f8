"""What to do about a walk that vanishes or explodes."""

import math

import numpy as np

from gradwalk.chains.choices import Given, Selection
from gradwalk.plans import Plan, PlanRow
from gradwalk.torch.layers import layers_from
from gradwalk.torch.plan import Draft
from gradwalk.torch.trace import Trace
from gradwalk.torch.verdict import LIMIT, Judge
from gradwalk.torch.walk import GradientWalk

_ONE, _ALL = 0.7, 1.0  # how far a layer's scale, or that of all together, is off in logarithms for init_ to help


def remedy(walk: GradientWalk, trace: Trace, activation: Given) -> str:
    """Return what helps against what a walk shows, in a sentence.

    `init_` is named only where it would draw layers whose scale is not the proposed one.
    """
    if walk.status == "healthy":
        return ""
    if walk.status == "not measured":
        return "Look at the size of the gradients of the weights that are listed as parameters."
    end = "" if walk.broken or not walk.chain else _end(walk)
    if end:
        return f"Only the {end} layer is off: gradwalk.torch.calibrate_(model, inputs, loss_fn) corrects it."
    named = _only_if_named(Judge(walk).finding.layer, trace, activation)
    if named:
        return f"Unless it is scaled on purpose, draw it with gradwalk.torch.init_(model, only={named!r})."
    for keep_fine, call in ((True, "init_(model)"), (False, "init_(model, keep_fine=False)")):
        if _is_off(_plan(trace, activation, keep_fine)):
            return f"Initialise the model with gradwalk.torch.{call}."
    if walk.broken:
        return "Check the inputs, the loss and the scale of the weights."
    if walk.chain and not np.isnan(walk.log_norm).any():
        return "gradwalk.torch.calibrate_(model, inputs, loss_fn) scales the weights until the walk is flat."
    return "Compare the scale of the layers that it names with that of the others (gains, relative)."


def _only_if_named(layer: str, trace: Trace, activation: Given) -> str:
    """Return the layer if `init_` leaves it alone unless it is named, else ""."""
    if not layer or layer in {row.name for row in _plan(trace, activation, False).drawn}:
        return ""
    try:
        return layer if _plan(trace, activation, False, only=layer).drawn else ""
    except ValueError:  # it is no weight layer, or what it reads is not known
        return ""


def _plan(trace: Trace, activation: Given, keep_fine: bool, only: str | None = None) -> Plan:
    layers = layers_from(trace, activation, "probe")
    return Draft(layers, "gaussian", Selection(only, None, "probe"), keep_fine).plan


def _end(walk: GradientWalk) -> str:
    """Return which end of a chain alone is off: "output", "first" or ""."""
    logs, limit = walk.log_norm, math.log(LIMIT)
    if len(logs) < 2 or not np.isfinite(logs).all() or abs(logs[0]) <= limit:
        return ""
    if abs(logs[0] - logs[-2]) <= limit:
        return "output"
    return "first" if abs(logs[1]) <= limit < abs(logs[1] - logs[0]) else ""


def _is_off(plan: Plan) -> bool:
    ratios = [_log_ratio(row) for row in plan.drawn]
    return bool(ratios) and (abs(sum(ratios)) > _ALL or max(map(abs, ratios)) > _ONE)


def _log_ratio(row: PlanRow) -> float:
    assert row.proposed is not None
    return math.log(row.std / row.proposed) if row.std > 0 else math.inf

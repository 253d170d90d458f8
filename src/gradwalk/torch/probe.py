"""`probe`: the walk of the gradient through a model, measured on a batch and compared with the prediction."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from gradwalk.activations import Activation, Array
from gradwalk.torch.follow import unwrapped
from gradwalk.torch.given import Given, given_for
from gradwalk.torch.layers import Exclusion, sort_out
from gradwalk.torch.measurement import Call, Inputs, Loss, Measured, measure, over_examples
from gradwalk.torch.prediction import BAND, UNKNOWN, Prediction, log_norm_step, predict, scaled_up
from gradwalk.torch.trace import Trace
from gradwalk.torch.walk import GradientWalk
from gradwalk.torch.weight_layers import fan_in, is_dense

_STUCK = 0.05  # the share of the largest slope below which a unit passes next to nothing
_UNPREDICTED = (Exclusion.PARAMETRISED, Exclusion.SHARED, Exclusion.COMPLEX)
_FEWEST = 8  # examples needed to call a unit stuck
_COMPARED = 64  # examples whose gradients are compared with each other for the band


def probe(model: nn.Module, inputs: Inputs, loss_fn: Loss, *, activation: Given = None) -> GradientWalk:
    """Return the walk of the gradient through a model, measured on a batch, with the predicted band.

    `inputs` is a tensor or a tuple of arguments, with examples along the first dimension; loss_fn(output) returns the
    loss. `activation` is used where the one that a layer reads cannot be determined. The model is run exactly once,
    forward and back, in its own mode; parameters, their .grad, buffers, hooks and the random state stay as they are.
    Norms are computed in double precision, so that autocast and a scaled loss change nothing but the rounding; a
    gradient that leaves the range of its dtype is continued from a rescaled one.

    The prediction takes the forward pass and the scale of each weight matrix as given, and delta at the output as
    independent of both; it holds for chains of layers and activations. The band is that of the mean over the batch: as
    far as the gradients of two examples point in the same direction, their walks are the same.

    >>> net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
    >>> probe(net, torch.eye(8), lambda y: y.square().sum()).layers
    ('0', '2')
    """
    model = unwrapped(model, "probe")
    given = given_for(activation, "probe")
    trace = Trace(model)
    measured = measure(model, inputs, loss_fn, "probe", trace)
    return compared(measured, trace, given)


def compared(measured: Measured, trace: Trace, given: Callable[[str], Activation | None]) -> GradientWalk:
    """Return a measured walk next to the one predicted from the model's trace."""
    reads, notes = _reads(measured, trace, given)
    prediction = _predicted(measured, reads)
    mean = measured.mean
    with np.errstate(invalid="ignore", divide="ignore"):
        z = (mean - prediction.mean) / prediction.sd
    return GradientWalk(
        layers=tuple(call.name for call in measured.calls),
        reads=tuple(reads),
        widths=tuple(fan_in(call.module) for call in measured.calls),
        log_norm=mean,
        spread=over_examples(measured.log_norm, _spread),
        forward=np.log(np.maximum(measured.rms, 5e-324)),
        stuck=np.array([_stuck(call, f) for call, f in zip(measured.calls, [*reads[1:], None], strict=True)]),
        predicted=prediction.mean,
        low=prediction.mean - BAND * prediction.sd,
        high=prediction.mean + BAND * prediction.sd,
        z=z,
        bias=prediction.bias,
        examples=len(measured.log_norm),
        lost=measured.lost,
        broken=measured.broken,
        notes=tuple(f"{note}; nothing is predicted below it" for note in notes),
    )


def _reads(
    measured: Measured, trace: Trace, given: Callable[[str], Activation | None]
) -> tuple[list[Activation | None], list[str]]:
    """Return the activation that each layer reads, None where nothing can be predicted, and the reasons for that."""
    objections, _ = sort_out(trace)
    reads: list[Activation | None] = []
    notes = []
    for call in measured.calls:
        name = trace.names[call.module]
        reading = trace.readings.get(name) if name in objections else None
        activation = (reading.signal.activation or given(name)) if reading else None
        obstacles = sorted(map(str, reading.signal.notes | reading.notes)) if reading else []
        if reading and activation is None:
            obstacles.append(f"what it reads is not known ({reading.signal.why}); pass activation=")
        if objections.get(name) in _UNPREDICTED:
            obstacles.append(str(objections[name]))
        reads.append(None if obstacles else activation)
        notes += [f"{call.name}: {', '.join(obstacles)}"] if obstacles else []
    return reads, notes


def _spread(log_norms: Array) -> float:
    return float(np.std(log_norms, ddof=1)) if len(log_norms) > 1 else math.nan


def _predicted(measured: Measured, reads: list[Activation | None]) -> Prediction:
    moves = []
    for place in range(1, len(measured.calls)):
        call, f, delta = measured.calls[place], reads[place], measured.deltas[place].detach()
        if f is None or measured.broken:
            moves.append(UNKNOWN)
            continue
        q = measured.rms[place - 1] ** 2
        move = log_norm_step(f, call.module, q, call.input_shape, call.output, delta)
        moves.append(move._replace(variance=move.variance * _alignment(delta)))
    return predict(moves)


def _alignment(delta: Tensor) -> float:
    """Return the mean squared cosine between the examples' gradients: the share of a step's variance that remains.

    Given delta, the random vectors W^T delta of two examples correlate as their deltas do, and squares of Gaussians
    correlate as the square of that.
    """
    rows = scaled_up(delta)[:_COMPARED].reshape(min(len(delta), _COMPARED), -1)
    rows = nn.functional.normalize(rows, dim=1, eps=1e-300)
    rows = rows[torch.isfinite(rows).all(dim=1) & (rows.abs().amax(dim=1) > 0)]
    return float((rows @ rows.T).square().mean()) if len(rows) else 1.0


def _stuck(call: Call, f: Activation | None) -> float:
    """Return the share of units whose slope is below 5 % of the largest slope for all examples."""
    a = call.output.detach()
    if f is None or len(a) < _FEWEST:
        return math.nan
    features = a.movedim(-1 if is_dense(call.module) else 1, 0).flatten(1)
    largest = float(np.abs(f.derivative(np.linspace(-8.0, 8.0, 1601))).max())
    slope = np.abs(np.asarray(f.derivative(features.double().cpu().numpy())))
    return float((slope < _STUCK * largest).all(axis=1).mean())

"""Measured against predicted: `probe` looks at the gradient of a model on a batch."""

import math

import numpy as np
import torch
from torch import Tensor, nn

from gradwalk.activations import Activation, Array
from gradwalk.torch.layers import find_layers
from gradwalk.torch.measurement import Call, Inputs, Loss, Measured, measure, over_examples, undisturbed
from gradwalk.torch.path import GIVEN, UNTRACED
from gradwalk.torch.prediction import BAND, UNKNOWN, Prediction, log_norm_step, predict, scaled_up
from gradwalk.torch.walk import GradientWalk

_STUCK = 0.05  # share of the greatest slope below which a unit passes next to nothing
_FEWEST = 8  # examples from which on it can be told that a unit is stuck
_COMPARED = 64  # examples whose gradients are compared with each other for the band


def probe(
    model: nn.Module, inputs: Inputs, loss_fn: Loss, *, activation: str | Activation | None = None
) -> GradientWalk:
    """Return the walk of the gradient through a model, measured on a batch, over the predicted band.

    `inputs` is a tensor or a tuple of arguments, examples along the first dimension; loss_fn(output) gives the loss.
    `activation` stands in where the one a layer reads cannot be found. The model is run once as it is, in its own
    mode; parameters, their .grad, buffers, hooks and the random state are as before. Norms are taken in double
    precision of the gradients as they are, so autocast and a scaled loss change nothing but the rounding; a gradient
    that leaves the range of its dtype is followed further with a rescaled one.

    The prediction takes the forward pass and the scale of each weight matrix as given, and delta at the output as
    independent of both; it holds for chains of layers and activations. The band is that of the batch's mean: as far
    as the gradients of two examples point the same way, their walks are one.

    >>> net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
    >>> probe(net, torch.eye(8), lambda y: y.square().sum()).layers
    ('0', '2')
    """
    measured = measure(model, inputs, loss_fn)
    try:
        with undisturbed(model):
            found = {layer.name: layer for layer in find_layers(model, activation, inputs).found}
        notes: tuple[str, ...] = ()
    except ValueError as error:
        found, notes = {}, (f"nothing is predicted: {error}",)
    reads: list[Activation | None] = []
    for call in measured.calls:
        layer = found.get(call.name)
        covered = layer is not None and not set(layer.notes) - {UNTRACED, GIVEN}
        reads.append(layer.activation if layer is not None and covered else None)
        if layer is not None and not covered:
            notes += (f"{call.name}: {', '.join(layer.notes)}; nothing is predicted below it",)
    prediction = _predicted(measured, reads)
    mean = measured.mean
    with np.errstate(invalid="ignore", divide="ignore"):
        z = (mean - prediction.mean) / prediction.sd
    return GradientWalk(
        layers=tuple(call.name for call in measured.calls),
        reads=tuple(reads),
        widths=tuple(_width(call) for call in measured.calls),
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
        notes=notes,
    )


def _width(call: Call) -> int:
    weight = call.module.weight
    assert isinstance(weight, Tensor)
    return weight[0].numel()


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
        move = log_norm_step(f, call.module, q, call.reads, call.output, delta)
        moves.append(move._replace(variance=move.variance * _alignment(delta)))
    return predict(moves)


def _alignment(delta: Tensor) -> float:
    """Return the mean squared cosine between the examples' gradients: the share of a step's variance that stays.

    Given delta, the random vectors W^T delta of two examples correlate as their deltas do, and squares of Gaussians
    as the square of that.
    """
    rows = scaled_up(delta)[:_COMPARED].reshape(min(len(delta), _COMPARED), -1)
    rows = nn.functional.normalize(rows, dim=1, eps=1e-300)
    rows = rows[torch.isfinite(rows).all(dim=1) & (rows.abs().amax(dim=1) > 0)]
    return float((rows @ rows.T).square().mean()) if len(rows) else 1.0


def _stuck(call: Call, f: Activation | None) -> float:
    """Return the share of units whose slope stays below 5 % of the greatest there is, for all examples."""
    a = call.output.detach()
    features = a.movedim(-1 if isinstance(call.module, nn.Linear) else 1, 0).flatten(1)
    if f is None or len(a) < _FEWEST:
        return math.nan
    greatest = float(np.abs(f.derivative(np.linspace(-8.0, 8.0, 1601))).max())
    slope = np.abs(np.asarray(f.derivative(features.double().cpu().numpy())))
    return float((slope < _STUCK * greatest).all(axis=1).mean())

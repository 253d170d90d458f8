"""`probe`: the walk of the gradient through a model, measured on a batch and compared with the prediction."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from torch import nn

from gradwalk.activations import Activation, Array
from gradwalk.torch.along import Stream, along, is_chain
from gradwalk.torch.calls import Call
from gradwalk.torch.draws import is_redrawable
from gradwalk.torch.follow import unwrapped
from gradwalk.torch.given import Given, given_for
from gradwalk.torch.layers import Exclusion, sort_out
from gradwalk.torch.losses import Loss
from gradwalk.torch.measurement import Inputs, Measured, measure, over_examples
from gradwalk.torch.norms import log_ratio, mean_squares
from gradwalk.torch.outside import outside_parameters, share_seen, zero_weights
from gradwalk.torch.passage import passage
from gradwalk.torch.passing import directions_between
from gradwalk.torch.prediction import BAND, predict
from gradwalk.torch.remedy import remedy
from gradwalk.torch.signals import Note
from gradwalk.torch.stuck import stuck_shares
from gradwalk.torch.trace import Trace
from gradwalk.torch.walk import GradientWalk
from gradwalk.torch.weight_layers import fan_in

_UNPREDICTED = (Exclusion.PARAMETRISED, Exclusion.SHARED, Exclusion.COMPLEX)


def probe(model: nn.Module, inputs: Inputs, loss_fn: Loss, *, activation: Given = None) -> GradientWalk:
    """Return the walk of the gradient through a model, measured on a batch, with the predicted band.

    The model is run exactly once, forward and back, in its own mode; parameters, their .grad, buffers, hooks and the
    random state stay as they are. Norms are computed in double precision where single precision is not enough, so that
    autocast and a scaled loss change nothing but the rounding; a gradient that leaves the range of its dtype is
    continued from a rescaled one.

    The prediction takes the forward pass and the scale of each weight matrix as given, and delta at the output as
    independent of both. It goes from point to point, each step given the gradients measured above it: by a closed form
    between dense layers, by redrawing the weights through convolutions, norms and residual sums. The band is that of
    the mean over the batch.

    Args:
        model: any torch.nn.Module.
        inputs: a tensor, a tuple of arguments or a dict of keywords, with examples along the first dimension.
        loss_fn: returns the loss of the model's output, a scalar.
        activation: the one that a layer reads where it cannot be determined: one for all of them, or a mapping from
            names or patterns such as "decoder.*" to activations.

    Returns:
        The walk with its verdict; print it for a table per layer.

    Raises:
        ValueError: if the model ran no weight layer, the batch is empty, or the loss is not one value with a gradient.

    >>> import torch
    >>> net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
    >>> probe(net, torch.eye(8), lambda y: y.square().sum()).layers
    ('0', '2')
    """
    return probed(model, inputs, loss_fn, activation, "probe")


def probed(model: nn.Module, inputs: Inputs, loss_fn: Loss, activation: Given, where: str) -> GradientWalk:
    """Return what `probe` returns; errors begin with `where`, the function that the user called."""
    model = unwrapped(model, where)
    given_for(activation, where)
    trace = Trace(model)
    measured = measure(model, inputs, loss_fn, where, trace)
    walk = compared(measured, trace, activation, where)
    return replace(walk, remedy=remedy(walk, trace, activation))


def compared(measured: Measured, trace: Trace, activation: Given, where: str) -> GradientWalk:
    """Return a measured walk next to the one predicted from the model's trace."""
    chain = is_chain(trace.nodes)
    stream = Stream((), (), None) if chain or measured.broken else _stream(measured, trace)
    if stream.reference is not None:
        measured = replace(measured, reference=stream.reference)
    reads = _reads(measured, trace, given_for(activation, where))
    by_node = {call.node: f for call, f in zip(measured.calls, reads, strict=True) if call.node is not None}
    prediction = predict(measured, trace.nodes, by_node, _Obstacles(trace).to)
    mean = measured.mean
    with np.errstate(invalid="ignore", divide="ignore"):
        z = (mean - prediction.mean) / prediction.sd
    modules = [call.module for call in measured.calls]
    fans = [fan_in(module) for module in modules]
    gains = np.sqrt(measured.weight_squares * fans)
    return GradientWalk(
        layers=tuple(call.name for call in measured.calls),
        reads=tuple(reads),
        widths=tuple(fans),
        log_norm=mean,
        spread=over_examples(measured.log_norm, _spread),
        forward=np.log(np.maximum(measured.rms, 5e-324)),
        stuck=stuck_shares(measured.calls, [*reads[1:], None] if reads else []),
        predicted=prediction.mean,
        low=prediction.mean - BAND * prediction.sd,
        high=prediction.mean + BAND * prediction.sd,
        z=z,
        gains=gains,
        relative=_relative(measured, trace),
        directions=_directions(measured, prediction.directions),
        signal_directions=measured.signal_directions,
        bias=prediction.bias,
        luck=prediction.luck,
        examples=len(measured.log_norm),
        lost=measured.lost,
        broken=measured.broken,
        chain=chain,
        share=share_seen(measured, trace),
        zeros=zero_weights(measured, trace),
        stream=stream.points,
        blocks=stream.blocks,
        parameters=outside_parameters(measured, trace),
        notes=_notes(measured, prediction.reasons),
        passage=passage(modules, reads, gains.tolist(), None) if chain else None,
    )


def _stream(measured: Measured, trace: Trace) -> Stream:
    ends = measured.ends or {signal.node for signal in trace.outputs}
    return along(measured, trace.nodes, ends)


def _reads(measured: Measured, trace: Trace, given: Callable[[str], Activation | None]) -> list[Activation | None]:
    """Return the activation that each layer reads, None where it is not known."""
    readings = [trace.readings.get(trace.names[call.module]) for call in measured.calls]
    names = [trace.names[call.module] for call in measured.calls]
    return [
        (each.signal.activation or given(name)) if each else None for name, each in zip(names, readings, strict=True)
    ]


class _Obstacles:
    """Why the weights of a layer follow no law that could be predicted."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.objections, _ = sort_out(trace)

    def to(self, call: Call) -> str:
        """Return the reason, "" if there is none."""
        name = self.trace.names[call.module]
        reading, objection = self.trace.readings.get(name), self.objections.get(name)
        if reading and Note.REPEATED in reading.notes:
            return str(Note.REPEATED.text.partition(":")[0])
        if objection in _UNPREDICTED:
            return str(objection)
        return "" if is_redrawable(call.module) else f"{type(call.module).__name__} computes its output in its own way"


def _directions(measured: Measured, known: dict[int, float]) -> Array:
    """Return how many directions the gradients span per layer; known: by place, those that the prediction needed."""
    rest = [place for place in range(len(measured.calls)) if place not in known]
    directions = np.empty(len(measured.calls))
    directions[list(known)] = list(known.values())
    directions[rest] = directions_between([measured.deltas[place] for place in rest])
    return directions


def _notes(measured: Measured, reasons: tuple[str, ...]) -> tuple[str, ...]:
    """Return one note per reason for which nothing is predicted, at the layer where it begins on the way back."""
    places = {reason: call.name for call, reason in zip(measured.calls, reasons, strict=True) if reason}
    return tuple(f"{place}: {reason}; nothing is predicted from there on" for reason, place in places.items())


def _spread(log_norms: Array, axis: int) -> Array | float:
    return np.std(log_norms, axis=axis, ddof=1) if len(log_norms) > 1 else np.full(log_norms.shape[1:], math.nan)


def _relative(measured: Measured, trace: Trace) -> Array:
    """Return ln(|dE/dW| / |W|) per layer, NaN where either is zero or not known."""
    own = [trace.names[call.module] for call in measured.calls]
    gradients = [measured.parameters.get(f"{name}.weight" if name else "weight") for name in own]
    known = [place for place, gradient in enumerate(gradients) if gradient is not None]
    squares = np.full(len(gradients), math.nan)
    squares[known] = mean_squares([gradient for gradient in gradients if gradient is not None])
    pairs = zip(squares.tolist(), measured.weight_squares.tolist(), strict=True)
    return np.array([log_ratio(one, other) / 2 for one, other in pairs])

"""One pass forward and back through a real network: the gradient at every weight layer, for each example.

Weight layers are counted 1 to D in the order they run; a_d is the output of layer d and delta_d = dE/da_d, for each
example. The walk is the log-norm ln(|delta_d| / |delta_D|), from the output back: D - 1 weight matrices to layer 1.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gradwalk.activations import Array
from gradwalk.torch.backward import Gradients, walk_back
from gradwalk.torch.follow import check_materialised, follow_chain, unwrapped
from gradwalk.torch.trace import Trace
from gradwalk.torch.undisturbed import undisturbed
from gradwalk.torch.watch import watched
from gradwalk.torch.weight_layers import NAMES, weight_layers

Loss = Callable[[Any], Tensor]
Inputs = Tensor | tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Call:
    """One run of one weight layer: the shape of its input, and its output as part of the graph."""

    name: str
    module: nn.Module
    input_shape: torch.Size
    output: Tensor


@dataclass(frozen=True, eq=False)
class Measured:
    """The result of one pass forward and back.

    calls: the runs of weight layers that the loss depends on. log_norm: one row per example, one column per call,
    layer 1 first. rms: of the pre-activations, per call. deltas: the gradients, up to a factor where floating point
    cannot represent them. lost: the index of the layer at and below which a plain backward pass leaves the range of its
    dtype, -1 if there is none. broken: what is not finite, "" if nothing is.
    """

    calls: list[Call]
    log_norm: Array
    rms: Array
    deltas: list[Tensor]
    lost: int = -1
    broken: str = ""

    @property
    def mean(self) -> Array:
        """The mean log-norm over the examples that have a gradient, per layer."""
        return over_examples(self.log_norm, np.mean)


def measure(model: nn.Module, inputs: Inputs, loss_fn: Loss, where: str, trace: Trace | None = None) -> Measured:
    """Run a model forward and back once, and return its log-norms; the model and the random state stay as they are.

    If a trace is passed, the signal is followed during the same run. Errors begin with `where`.
    """
    model = unwrapped(model, where)
    check_materialised(model, where)
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(undisturbed(list(model.modules())))
        calls = stack.enter_context(_recorded(weight_layers(model)))
        arguments = tuple(map(_usable, inputs if isinstance(inputs, tuple) else (inputs,)))
        loss = loss_fn(_run(model, arguments, trace))
        _check_loss(loss, calls, where)
        rms = np.array([_rms(call.output) for call in calls])
        broken = _not_finite(calls, rms, loss)
        if broken:
            unknown = np.full((1, len(calls)), math.nan)
            return Measured(calls, unknown, rms, [torch.zeros_like(call.output) for call in calls], broken=broken)
        gradients = walk_back(loss, [call.output for call in calls], where, [call.name for call in calls])
    return _measured(calls, rms, gradients)


def _measured(calls: list[Call], rms: Array, gradients: Gradients) -> Measured:
    return Measured(
        [calls[place] for place in gradients.places],
        gradients.log_norms(),
        rms[gradients.places],
        gradients.deltas,
        gradients.lost,
    )


def _run(model: nn.Module, arguments: tuple[Any, ...], trace: Trace | None) -> Any:
    if trace is None or follow_chain(trace):
        return model(*arguments)
    with watched(trace, arguments):
        return model(*arguments)


def _usable(argument: Any) -> Any:
    return argument.clone() if isinstance(argument, Tensor) and argument.is_inference() else argument


def _check_loss(loss: Any, calls: list[Call], where: str) -> None:
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        shape = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        raise ValueError(f"{where}: loss_fn(output) must return a tensor with one value, got {shape}")
    if not calls:
        raise ValueError(f"{where}: the model ran no weight layer ({NAMES})")
    if not loss.requires_grad:
        raise ValueError(f"{where}: the loss has no gradient; does loss_fn detach the output or return a constant?")


def _not_finite(calls: list[Call], rms: Array, loss: Tensor) -> str:
    for call, size in zip(calls, rms, strict=True):
        if not math.isfinite(size):
            return f"the output of {call.name} is not finite"
    return "" if bool(torch.isfinite(loss).all()) else "the loss is not finite"


def _rms(output: Tensor) -> float:
    return math.sqrt(float(output.detach().double().square().mean()))


@contextmanager
def _recorded(layers: Mapping[nn.Module, str]) -> Iterator[list[Call]]:
    """Collect the runs of the weight layers; each passes on a copy, so that its output is not changed in place."""
    calls: list[Call] = []
    runs = dict.fromkeys(layers, 0)

    def hook(module: nn.Module, args: tuple[Any, ...], output: Any) -> Tensor | None:
        if not isinstance(output, Tensor) or not torch.is_grad_enabled():
            return None
        output = output if output.requires_grad else output.detach().requires_grad_()  # frozen so far
        runs[module] += 1
        name = layers[module] if runs[module] == 1 else f"{layers[module]}#{runs[module]}"
        calls.append(Call(name, module, args[0].shape if args else torch.Size(), output))
        copy: Tensor = output.clone()
        return copy

    handles = [module.register_forward_hook(hook) for module in layers]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def over_examples(log_norm: Array, statistic: Callable[..., Any]) -> Array:
    """Return a statistic per layer over the examples whose gradient is not zero; -inf where all are zero."""
    columns = [column[np.isfinite(column)] for column in log_norm.T]
    return np.array(
        [
            statistic(finite) if len(finite) else (math.nan if np.isnan(column).any() else -math.inf)
            for finite, column in zip(columns, log_norm.T, strict=True)
        ]
    )

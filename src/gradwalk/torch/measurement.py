"""One pass forward and back through a real network: the gradient at every weight layer, example by example.

Weight layers are counted 1..D in the order they run; a_d is what layer d puts out, delta_d = dE/da_d for each example,
and the walk is the log-norm ln(|delta_d| / |delta_D|), from the output back. The last one passes D - 1 matrices.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gradwalk.activations import Array
from gradwalk.torch.modules import WEIGHT_LAYERS

Loss = Callable[[Any], Tensor]
Inputs = Tensor | tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Call:
    """One run of one weight layer: what it read (its shape) and what it put out, as part of the graph."""

    name: str
    module: nn.Module
    reads: torch.Size
    output: Tensor


@dataclass(frozen=True, eq=False)
class Measured:
    """What one pass forward and back has shown: rows of `log_norm` are examples, columns layers, layer 1 first.

    rms: of the pre-activations. deltas: the gradients themselves, None where floating point could not hold them.
    lost: the layer, counted from 0, from which on down the plain gradient leaves what its dtype can hold; -1 if none.
    broken: what is not finite, "" if all is.
    """

    calls: list[Call]
    log_norm: Array
    rms: Array
    deltas: list[Tensor]
    lost: int = -1
    broken: str = ""

    @property
    def mean(self) -> Array:
        """The mean log-norm over the examples that have a gradient, at every layer."""
        return over_examples(self.log_norm, np.mean)


def measure(model: nn.Module, inputs: Inputs, loss_fn: Loss, where: str = "probe") -> Measured:
    """Return the log-norms of one pass; nothing of the model is changed, and the random state is put back."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"{where}: model must be a torch.nn.Module, got {type(model).__name__}")
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in model.parameters()):
        raise ValueError(f"{where}: the model has lazy layers that are not yet materialised; run it once first")
    arguments = inputs if isinstance(inputs, tuple) else (inputs,)
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(undisturbed(model))
        calls = stack.enter_context(_recorded(model))
        loss = loss_fn(model(*(_usable(argument) for argument in arguments)))
        _check_loss(loss, calls, where)
        rms = np.array([_rms(call.output) for call in calls])
        broken = _not_finite(calls, rms, loss)
        if broken:
            nothing = np.full((1, len(calls)), math.nan)
            return Measured(calls, nothing, rms, [torch.zeros_like(call.output) for call in calls], broken=broken)
        return _walk_back(loss, calls, rms, where)


def _usable(argument: Any) -> Any:
    return argument.clone() if isinstance(argument, Tensor) and argument.is_inference() else argument


def _check_loss(loss: Any, calls: list[Call], where: str) -> None:
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        shape = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        raise ValueError(f"{where}: loss_fn(output) must return a tensor with one value, got {shape}")
    if not calls:
        raise ValueError(f"{where}: the model ran no weight layer (Linear or Conv)")
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
def _recorded(model: nn.Module) -> Iterator[list[Call]]:
    """Gather the runs of the weight layers; each hands on a copy, so that nothing is changed in place behind it."""
    calls: list[Call] = []

    def hook_for(name: str) -> Callable[[nn.Module, tuple[Any, ...], Any], Tensor | None]:
        def hook(module: nn.Module, args: tuple[Any, ...], output: Any) -> Tensor | None:
            if not isinstance(output, Tensor) or not torch.is_grad_enabled():
                return None
            output = output if output.requires_grad else output.detach().requires_grad_()  # frozen so far
            runs = sum(call.module is module for call in calls) if name in seen else 0
            seen.add(name)
            shape = args[0].shape if args else torch.Size()
            calls.append(Call(f"{name}#{runs + 1}" if runs else name, module, shape, output))
            copy: Tensor = output.clone()
            return copy

        return hook

    seen: set[str] = set()
    handles = [
        module.register_forward_hook(hook_for(name or type(module).__name__))
        for name, module in model.named_modules()
        if isinstance(module, WEIGHT_LAYERS)
    ]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Put every buffer, such as the running statistics of a norm, and the random state back afterwards."""
    kept = [(module, dict(module._buffers)) for module in model.modules() if module._buffers]
    values = {id(t): t.clone() for _, buffers in kept for t in buffers.values() if t is not None}
    devices = {p.device.index or 0 for p in model.parameters() if p.device.type == "cuda"}
    with torch.random.fork_rng(devices=sorted(devices)):
        try:
            yield
        finally:
            with torch.no_grad():
                for module, buffers in kept:
                    module._buffers.update(buffers)
                    for each in buffers.values():
                        if each is not None and not torch.equal(each, values[id(each)]):
                            each.copy_(values[id(each)])


def _walk_back(loss: Tensor, calls: list[Call], rms: Array, where: str) -> Measured:
    """Return the gradients at all layers; where they leave floating point, go on from a rescaled one.

    Going on from layer k is right only if all ways to the loss lead through it. The gradient at the layer before is
    known both ways and says whether that is so; if not, what floating point holds is all that can be told.
    """
    found = torch.autograd.grad(loss, [call.output for call in calls], allow_unused=True, retain_graph=True)
    on_the_way = [place for place, delta in enumerate(found) if delta is not None]
    if not on_the_way:
        raise ValueError(f"{where}: the loss has no gradient at any weight layer")
    calls, rms = [calls[place] for place in on_the_way], rms[on_the_way]
    deltas = [delta for delta in found if delta is not None]
    shifts = np.zeros(len(deltas))  # log of the factor by which each delta is too small
    if float(deltas[-1].detach().abs().max()) == 0:
        raise ValueError(f"{where}: the gradient of the loss is zero at the output layer {calls[-1].name!r}")
    known = [_is_held(delta) for delta in deltas]
    lowest = lost = _held_down_to(deltas)
    while 0 < lowest < len(calls):
        start = min(lowest + 1, len(calls) - 1)
        size = float(torch.linalg.vector_norm(deltas[start].double()))
        seed = (deltas[start].double() / size).to(deltas[start].dtype)
        outputs = [call.output for call in calls[:start]]
        below = torch.autograd.grad(calls[start].output, outputs, seed, retain_graph=True, allow_unused=True)
        again = [torch.zeros_like(output) if d is None else d for d, output in zip(below, outputs, strict=True)]
        shift = shifts[start] + math.log(size)
        if start > lowest and not _alike(again[lowest], shift, deltas[lowest], shifts[lowest]):
            break
        for place in range(lowest):
            if not known[place]:
                deltas[place], shifts[place] = again[place], shift
        reached = _held_down_to(deltas[:lowest])
        if reached >= lowest:
            break
        lowest = reached
    with np.errstate(divide="ignore"):
        log_norm = np.stack([_norms(delta) for delta in deltas], axis=1)
        log_norm = np.log(log_norm[log_norm[:, -1] > 0]) + shifts
    return Measured(calls, log_norm - log_norm[:, -1:], rms, deltas, lost - 1)


def _held_down_to(deltas: list[Tensor]) -> int:
    """Return the lowest layer to which, from the last one on, the gradients are normal floating-point numbers."""
    return next((place + 1 for place in reversed(range(len(deltas))) if not _is_held(deltas[place])), 0)


def _is_held(delta: Tensor) -> bool:
    largest = float(_norms(delta).max()) / math.sqrt(max(delta[:1].numel(), 1))
    return 10 * torch.finfo(delta.dtype).tiny < largest < math.inf


def _norms(delta: Tensor) -> Array:
    each = delta.detach().reshape(len(delta), -1) if delta.dim() else delta.detach().reshape(1, 1)
    return np.asarray(torch.linalg.vector_norm(each.double(), dim=1).cpu().numpy())


def _alike(one: Tensor, log_one: float, other: Tensor, log_other: float) -> bool:
    sizes = [float(_norms(each).max()) for each in (one, other)]
    return min(sizes) > 0 and abs(math.log(sizes[0] / sizes[1]) + log_one - log_other) < 0.05


def over_examples(log_norm: Array, statistic: Callable[..., Any]) -> Array:
    """Return the statistic at every layer over the examples whose gradient is not zero; -inf where all are."""
    columns = [column[np.isfinite(column)] for column in log_norm.T]
    return np.array(
        [
            statistic(finite) if len(finite) else (math.nan if np.isnan(column).any() else -math.inf)
            for finite, column in zip(columns, log_norm.T, strict=True)
        ]
    )

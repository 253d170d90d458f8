"""One pass forward and back through a real network: the gradient at every weight layer, for each example.

Weight layers are counted 1 to D in the order they run; a_d is the output of layer d and delta_d = dE/da_d, for each
example. The walk is the log-norm ln(|delta_d| / |delta_D|), from the output back: D - 1 weight matrices to layer 1.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from gradwalk.activations import Array
from gradwalk.torch.backward import Gradients, walk_back
from gradwalk.torch.calls import Call, Calls, is_bare
from gradwalk.torch.follow import arguments, chain_modules, check_materialised, follow_chain, unwrapped
from gradwalk.torch.graph import Op
from gradwalk.torch.losses import Loss, check_function, one_value
from gradwalk.torch.norms import RowNorms, mean_squares, row_norms
from gradwalk.torch.passing import Rows
from gradwalk.torch.trace import Trace
from gradwalk.torch.undisturbed import undisturbed
from gradwalk.torch.watch import watched
from gradwalk.torch.weight_layers import NAMES, weight_layers, weight_of

Inputs = Tensor | Sequence[Any] | Mapping[str, Any]
_BETWEEN = frozenset({Op.SUM, Op.NORM})  # beside weight layers, where the gradient is measured


class Station(NamedTuple):
    """A sum or a norm on the way: its place in the graph of autograd, and its shape."""

    edge: GradientEdge
    shape: torch.Size


class Between:
    """What a run shows between the weight layers: sums and norms by their nodes, and the size of each node."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.stations: dict[int, Station] = {}
        self.sizes: dict[int, Tensor] = {}
        self.nodes: Any = WeakIdKeyDictionary()

    def see(self, node: int, tensor: Tensor) -> None:
        """Note a tensor that carries the signal of a node; of several the first counts."""
        self.nodes[tensor] = node
        if node in self.sizes or not tensor.is_floating_point():
            return
        self.sizes[node] = tensor.detach().square().mean()
        if self.trace.nodes[node].op in _BETWEEN and tensor.requires_grad:
            self.stations[node] = Station(get_gradient_edge(tensor), tensor.shape)

    def ends(self, output: Any) -> dict[int, GradientEdge]:
        """Return the nodes among what the model returned."""
        leaves = [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor) and leaf in self.nodes]
        return {self.nodes[leaf]: get_gradient_edge(leaf) for leaf in leaves if leaf.requires_grad}


@dataclass(frozen=True, eq=False)
class Measured:
    """The result of one pass forward and back.

    calls: the runs of weight layers that the loss depends on. logs: ln |delta_d|, one row per example, one column per
    call, layer 1 first. rms: of the pre-activations, per call; signal_directions: how many they span, if a trace was
    passed. deltas: the gradients, smaller than the true ones by exp(shifts) where floating point cannot represent them.
    norms: of their rows. lost: the index of the layer at and below which a plain backward pass leaves the range of its
    dtype, -1 if there is none. broken: what is not finite, "" if nothing is. stations: the sums and norms on the way,
    by node, with their gradients. sizes: the mean square per node. ends: the nodes that the loss is computed from.
    parameters: the gradient of each matrix, None where the loss does not depend on it. reference: ln |delta| that the
    walk is relative to, one per example; that of layer D unless replaced.
    hidden: the weight layers that ran without gradient, as they do inside a reentrant checkpoint.
    """

    calls: list[Call]
    logs: Array
    rms: Array
    signal_directions: Array
    deltas: list[Tensor]
    shifts: Array
    norms: RowNorms
    reference: Array
    lost: int = -1
    broken: str = ""
    stations: dict[int, tuple[Station, Tensor]] = field(default_factory=dict)
    sizes: dict[int, float] = field(default_factory=dict)
    ends: frozenset[int] = frozenset()
    parameters: dict[str, Tensor | None] = field(default_factory=dict)
    hidden: frozenset[nn.Module] = frozenset()

    @property
    def examples(self) -> int:
        """The number of examples that are told apart."""
        return len(self.logs)

    @cached_property
    def weights(self) -> list[Tensor]:
        """The weight of each layer."""
        return [weight_of(call.module) for call in self.calls]

    @cached_property
    def weight_squares(self) -> Array:
        """The mean square of each layer's weight."""
        return mean_squares(self.weights)

    @cached_property
    def in_layers(self) -> frozenset[int]:
        """The identities of the parameters that the layers hold, themselves or in a parametrisation."""
        modules = (
            each for call in self.calls for each in (call.module.modules() if call.module._modules else [call.module])
        )
        return frozenset(id(p) for module in modules for p in module._parameters.values())

    @property
    def log_norm(self) -> Array:
        """The walk: one row per example that has a gradient at the reference, one column per call."""
        kept = self.reference > -math.inf
        return np.asarray(self.logs[kept] - self.reference[kept, None])

    @property
    def mean(self) -> Array:
        """The mean log-norm over the examples that have a gradient, per layer."""
        return over_examples(self.log_norm, np.mean)


def measure(model: nn.Module, inputs: Inputs, loss_fn: Loss, where: str, trace: Trace | None = None) -> Measured:
    """Run a model forward and back once, and return its log-norms; the model and the random state stay as they are.

    If a trace is passed, the signal is followed during the same run, and the gradients of sums, norms and parameters
    are measured too. Errors begin with `where`.
    """
    model = unwrapped(model, where)
    modules = list(model.modules()) if trace is None else list(trace.names)
    check_materialised(modules, where)
    check_function(loss_fn, where)
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(undisturbed(modules))
        calls = Calls(weight_layers(model))
        args, kwargs = arguments(inputs)
        between = None if trace is None else Between(trace)
        output = _run(model, args, kwargs, between, calls, stack)
        loss = loss_fn(output)
        others = _Others(between, output)
        _check_loss(loss, calls.list, others, where)
        seen = [call for call in calls.list if call.output.numel()]
        if trace is not None:
            _place(seen, trace)
        outputs = [call.output for call in seen]
        forward = _Forward(outputs, trace is not None)
        broken = _not_finite(seen, forward.rms, loss)
        if broken:
            return _broken(seen, forward, broken)
        gradients = walk_back(loss, outputs, where, [call.name for call in seen], others.targets)
    measured = _measured(seen, forward, gradients, others, batch_size(args, kwargs))
    return replace(measured, hidden=frozenset(calls.hidden))


class _Others:
    """What is differentiated by beside the outputs of the weight layers, where the signal was followed."""

    def __init__(self, between: Between | None, output: Any) -> None:
        self.between = between
        self.stations = between.stations if between else {}
        self.ends = between.ends(output) if between else {}
        every = between.trace.parameters if between else {}
        self.parameters = {name: p for name, (_, p) in every.items() if p.requires_grad and p.dim() > 1}
        edges = [station.edge for station in self.stations.values()]
        self.targets: list[Tensor | GradientEdge] = [*edges, *self.ends.values(), *self.parameters.values()]

    def sorted_out(self, gradients: Sequence[Tensor | None]) -> dict[str, Any]:
        """Return the fields of `Measured` that these gradients make."""
        first, second = len(self.stations), len(self.stations) + len(self.ends)
        passed = zip(self.stations.items(), gradients[:first], strict=True)
        return {
            "stations": {node: (station, delta) for (node, station), delta in passed if delta is not None},
            "ends": frozenset(n for n, d in zip(self.ends, gradients[first:second], strict=True) if d is not None),
            "parameters": dict(zip(self.parameters, gradients[second:], strict=True)),
            "sizes": {node: float(size) for node, size in self.between.sizes.items()} if self.between else {},
        }


class _Forward:
    """The root mean square of the outputs of layers, and how many directions their examples span, NaN if not asked."""

    def __init__(self, outputs: Sequence[Tensor], spanning: bool) -> None:
        rows = Rows(outputs) if spanning else None
        norms = row_norms(outputs) if rows is None else rows.norms
        self.rms = norms.whole() / np.sqrt([max(output.numel(), 1) for output in outputs])
        self.directions = np.full(len(outputs), math.nan) if rows is None else rows.directions


def _measured(calls: list[Call], forward: _Forward, gradients: Gradients, others: _Others, batch: int) -> Measured:
    fields = others.sorted_out(gradients.others)
    deltas = [*gradients.deltas, *(delta for _, delta in fields["stations"].values())]
    examples = count_examples([len(delta) if delta.dim() else 1 for delta in deltas], batch)
    with np.errstate(divide="ignore"):
        logs = np.log(gradients.norms.per_example(examples)) + gradients.shifts
    kept = [calls[place] for place in gradients.places]
    rms, spanned = forward.rms[gradients.places], forward.directions[gradients.places]
    deltas, shifts, norms = gradients.deltas, gradients.shifts, gradients.norms
    alive = [place for place in range(len(kept)) if logs[:, place].max() > -math.inf]
    reference = logs[:, alive[-1]] if alive else np.zeros(examples)
    return Measured(kept, logs, rms, spanned, deltas, shifts, norms, reference, gradients.lost, **fields)


def _broken(calls: list[Call], forward: _Forward, broken: str) -> Measured:
    zeros = [torch.zeros_like(call.output) for call in calls]
    unknown = np.full((1, len(calls)), math.nan)
    shifts, norms = np.zeros(len(calls)), row_norms(zeros)
    return Measured(calls, unknown, forward.rms, forward.directions, zeros, shifts, norms, np.zeros(1), broken=broken)


def batch_size(args: Any, kwargs: Any) -> int:
    """Return the first dimension of the first input that has one, 0 if none has."""
    sizes = [leaf.shape[0] for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor) and leaf.dim()]
    return sizes[0] if sizes else 0


def count_examples(lengths: Sequence[int], batch: int) -> int:
    """Return how many examples gradients of these lengths can be told apart by.

    A model that folds other dimensions into the first one, as windows are, has a multiple of the batch there. Where it
    is none, the batch counts as one example.
    """
    if batch and all(length % batch == 0 for length in lengths):
        return batch
    return lengths[0] if len(set(lengths)) == 1 else 1


def _run(model: nn.Module, args: Any, kwargs: Any, between: Between | None, calls: Calls, stack: ExitStack) -> Any:
    """Run a model and collect the runs of its weight layers; hooks stay on it until the stack is closed."""
    trace = None if between is None else between.trace
    plain = trace is not None and _is_plain(trace)
    if plain and len(args) == 1 and not kwargs and isinstance(args[0], Tensor):
        assert trace is not None
        modules = chain_modules(model)
        containers = [module for module in trace.names if module._modules]
        if is_bare(modules, containers, trace.roles):
            return calls.through(modules, args[0])
    stack.enter_context(calls.recorded())
    if between is None or plain:
        return model(*args, **kwargs)
    between.trace.clear()
    with watched(between.trace, (args, kwargs), between.see):
        return model(*args, **kwargs)


def _is_plain(trace: Trace) -> bool:
    """Return whether a model is a chain of modules without norms, and follow its signal if so."""
    return follow_chain(trace) and not any(node.op in _BETWEEN for node in trace.nodes)


def _check_loss(loss: Any, calls: list[Call], others: _Others, where: str) -> None:
    one_value(loss, where)
    if not calls and not others.parameters:
        raise ValueError(f"{where}: the model ran no weight layer ({NAMES})")
    if any(call.output.dim() and not len(call.output) for call in calls):
        raise ValueError(f"{where}: inputs must have at least one example, got an empty batch")
    if not loss.requires_grad:
        raise ValueError(f"{where}: the loss has no gradient; does loss_fn detach the output or return a constant?")


def _not_finite(calls: list[Call], rms: Array, loss: Tensor) -> str:
    for call, size in zip(calls, rms, strict=True):
        if not math.isfinite(size):
            return f"the output of {call.name} is not finite"
    return "" if bool(torch.isfinite(loss).all()) else "the loss is not finite"


def _place(calls: list[Call], trace: Trace) -> None:
    """Set the nodes of the calls: the n-th run of a layer is the n-th node of its name."""
    nodes: dict[str, list[int]] = {}
    for place, node in enumerate(trace.nodes):
        if node.op is Op.WEIGHTS:
            nodes.setdefault(node.name, []).append(place)
    for call in calls:
        call.node = _next(nodes, call.name)


def _next(nodes: dict[str, list[int]], name: str) -> int | None:
    waiting = nodes.get(name.partition("#")[0])
    return waiting.pop(0) if waiting else None


def over_examples(log_norm: Array, statistic: Callable[..., Any]) -> Array:
    """Return a statistic per layer over the examples whose gradient is not zero; -inf where all are zero."""
    if len(log_norm) and np.isfinite(log_norm).all():
        return np.asarray(statistic(log_norm, axis=0))
    columns = [column[np.isfinite(column)] for column in log_norm.T]
    return np.array(
        [
            statistic(finite, axis=0) if len(finite) else (math.nan if np.isnan(column).any() else -math.inf)
            for finite, column in zip(columns, log_norm.T, strict=True)
        ]
    )

"""One pass forward and back through a real network: the gradient at every weight layer, for each example.

Weight layers are counted 1 to D in the order they run; a_d is the output of layer d and delta_d = dE/da_d, for each
example. The walk is the log-norm ln(|delta_d| / |delta_D|), from the output back: D - 1 weight matrices to layer 1.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakIdKeyDictionary

from gradwalk.activations import Array
from gradwalk.checks import shown
from gradwalk.torch.backward import Gradients, walk_back
from gradwalk.torch.follow import arguments, check_materialised, follow_chain, unwrapped
from gradwalk.torch.graph import Op
from gradwalk.torch.norms import all_example_norms, mean_squares
from gradwalk.torch.trace import Trace
from gradwalk.torch.undisturbed import undisturbed
from gradwalk.torch.watch import watched
from gradwalk.torch.weight_layers import NAMES, weight_layers, weight_of

Loss = Callable[[Any], Tensor]
Inputs = Tensor | Sequence[Any] | Mapping[str, Any]
_BETWEEN = frozenset({Op.SUM, Op.NORM})  # beside weight layers, where the gradient is measured


@dataclass(frozen=True, eq=False)
class Call:
    """One run of one weight layer: its input and its output as parts of the graph, and its node in the trace, if any.

    version: of the input at that time, so that a later change in place is noticed.
    """

    name: str
    module: nn.Module
    input: Tensor
    output: Tensor
    version: int
    node: int | None = None


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
    call, layer 1 first. rms: of the pre-activations, per call. deltas: the gradients, smaller than the true ones by
    exp(shifts) where floating point cannot represent them. lost: the index of the layer at and below which a plain
    backward pass leaves the range of its dtype, -1 if there is none. broken: what is not finite, "" if nothing is.
    stations: the sums and norms on the way, by node, with their gradients. sizes: the mean square per node. ends: the
    nodes that the loss is computed from. parameters: the gradient of each parameter, None where the loss does not
    depend on one. reference: ln |delta| that the walk is relative to, one per example; that of layer D unless replaced.
    hidden: the weight layers that ran without gradient, as they do inside a reentrant checkpoint.
    """

    calls: list[Call]
    logs: Array
    rms: Array
    deltas: list[Tensor]
    shifts: Array
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
    if not callable(loss_fn):
        raise TypeError(f"{where}: loss_fn must be a function of the model's output, got loss_fn={shown(loss_fn)}")
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(undisturbed(modules))
        hidden: set[nn.Module] = set()
        calls = stack.enter_context(_recorded(weight_layers(model), hidden))
        args, kwargs = tree_map(_usable, arguments(inputs))
        between = None if trace is None else Between(trace)
        output = _run(model, args, kwargs, between)
        loss = loss_fn(output)
        others = _Others(between, output)
        _check_loss(loss, calls, others, where)
        calls = calls if trace is None else _placed(calls, trace)
        rms = np.sqrt(mean_squares([call.output for call in calls]))
        broken = _not_finite(calls, rms, loss)
        if broken:
            return _broken(calls, rms, broken)
        gradients = walk_back(loss, [call.output for call in calls], where, [c.name for c in calls], others.targets)
    return replace(_measured(calls, rms, gradients, others, batch_size(args, kwargs)), hidden=frozenset(hidden))


class _Others:
    """What is differentiated by beside the outputs of the weight layers, where the signal was followed."""

    def __init__(self, between: Between | None, output: Any) -> None:
        self.between = between
        self.stations = between.stations if between else {}
        self.ends = between.ends(output) if between else {}
        every = between.trace.parameters if between else {}
        self.parameters = {name: p for name, (_, p) in every.items() if p.requires_grad}
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


def _measured(calls: list[Call], rms: Array, gradients: Gradients, others: _Others, batch: int) -> Measured:
    fields = others.sorted_out(gradients.others)
    deltas = [*gradients.deltas, *(delta for _, delta in fields["stations"].values())]
    examples = count_examples([len(delta) if delta.dim() else 1 for delta in deltas], batch)
    with np.errstate(divide="ignore"):
        logs = np.log(all_example_norms(gradients.norms, examples)) + gradients.shifts
    kept = [calls[place] for place in gradients.places]
    rms, deltas, shifts = rms[gradients.places], gradients.deltas, gradients.shifts
    alive = [place for place in range(len(kept)) if logs[:, place].max() > -math.inf]
    reference = logs[:, alive[-1]] if alive else np.zeros(examples)
    return Measured(kept, logs, rms, deltas, shifts, reference, gradients.lost, **fields)


def _broken(calls: list[Call], rms: Array, broken: str) -> Measured:
    zeros = [torch.zeros_like(call.output) for call in calls]
    unknown = np.full((1, len(calls)), math.nan)
    return Measured(calls, unknown, rms, zeros, np.zeros(len(calls)), np.zeros(1), broken=broken)


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


def _run(model: nn.Module, args: Any, kwargs: Any, between: Between | None) -> Any:
    if between is None or _is_plain(between.trace):
        return model(*args, **kwargs)
    between.trace.clear()
    with watched(between.trace, (args, kwargs), between.see):
        return model(*args, **kwargs)


def _is_plain(trace: Trace) -> bool:
    """Return whether a model is a chain of modules without norms, and follow its signal if so."""
    return follow_chain(trace) and not any(node.op in _BETWEEN for node in trace.nodes)


def _usable(argument: Any) -> Any:
    return argument.clone() if isinstance(argument, Tensor) and argument.is_inference() else argument


def _check_loss(loss: Any, calls: list[Call], others: _Others, where: str) -> None:
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        shape = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        raise ValueError(f"{where}: loss_fn(output) must return a tensor with one value, got {shape}")
    if not calls and all(p.dim() < 2 for p in others.parameters.values()):
        raise ValueError(f"{where}: the model ran no weight layer ({NAMES})")
    if any(call.output.numel() == 0 for call in calls):
        raise ValueError(f"{where}: inputs must have at least one example, got an empty batch")
    if not loss.requires_grad:
        raise ValueError(f"{where}: the loss has no gradient; does loss_fn detach the output or return a constant?")


def _not_finite(calls: list[Call], rms: Array, loss: Tensor) -> str:
    for call, size in zip(calls, rms, strict=True):
        if not math.isfinite(size):
            return f"the output of {call.name} is not finite"
    return "" if bool(torch.isfinite(loss).all()) else "the loss is not finite"


def _placed(calls: list[Call], trace: Trace) -> list[Call]:
    """Return the calls with their nodes: the n-th run of a layer is the n-th node of its name."""
    nodes: dict[str, list[int]] = {}
    for place, node in enumerate(trace.nodes):
        if node.op is Op.WEIGHTS:
            nodes.setdefault(node.name, []).append(place)
    return [
        Call(call.name, call.module, call.input, call.output, call.version, _next(nodes, call.name)) for call in calls
    ]


def _next(nodes: dict[str, list[int]], name: str) -> int | None:
    waiting = nodes.get(name.partition("#")[0])
    return waiting.pop(0) if waiting else None


@contextmanager
def _recorded(layers: Mapping[nn.Module, str], hidden: set[nn.Module]) -> Iterator[list[Call]]:
    """Collect the runs of the weight layers; each passes on a copy, so that its output is not changed in place."""
    calls: list[Call] = []
    runs = dict.fromkeys(layers, 0)

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Tensor | None:
        read = next((each for each in (*args, *kwargs.values()) if isinstance(each, Tensor)), None)
        if not isinstance(output, Tensor) or read is None or not torch.is_grad_enabled():
            hidden.add(module)
            return None
        output = output if output.requires_grad else output.detach().requires_grad_()  # frozen so far
        runs[module] += 1
        name = layers[module] if runs[module] == 1 else f"{layers[module]}#{runs[module]}"
        calls.append(Call(name, module, read, output, read._version))
        copy: Tensor = output.clone()
        return copy

    handles = [module.register_forward_hook(hook, with_kwargs=True) for module in layers]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


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

"""Ways of following a signal through a model, each of which fills a `Trace`.

A plain `nn.Sequential` is a chain and needs neither a run nor a trace. Of other models, given an example, every torch
function is watched during one run; without one, a stand-in goes through the model's code, and torch.fx where it cannot.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils._pytree import tree_map_only

from gradwalk.torch.roles import QUERIES
from gradwalk.torch.signals import Signal
from gradwalk.torch.standin import passes_through, works_in_place
from gradwalk.torch.trace import Trace
from gradwalk.torch.undisturbed import undisturbed
from gradwalk.torch.watch import watched


def follow_chain(trace: Trace) -> bool:
    """Follow the signal through a chain of modules; return whether the model is one."""
    modules = chain_modules(trace.model)
    if not all(map(trace.is_leaf, modules)):
        return False
    signal = trace.enter()
    for module in modules:
        signal = trace.through_module(module, [signal])
    trace.outputs = (signal,)
    return True


def chain_modules(model: nn.Module) -> list[nn.Module]:
    """Return the modules that a plain `nn.Sequential` runs one after the other, or the model itself."""
    return list(_leaves(model))


def _leaves(model: nn.Module) -> Iterator[nn.Module]:
    if type(model) is not nn.Sequential:
        yield model
        return
    for child in model:
        yield from _leaves(child)


def follow_run(trace: Trace, example: Any, where: str) -> None:
    """Follow the signal through one run of the model, in evaluation mode and without gradient."""
    check_materialised(trace.names, where)
    args, kwargs = arguments(example)
    try:
        with undisturbed(trace.names, evaluating=True), torch.no_grad(), watched(trace, (args, kwargs)):
            trace.model(*args, **kwargs)
    except Exception as error:
        raise ValueError(f"{where}: the model does not run on the example: {error}") from error


def unwrapped(model: nn.Module, where: str) -> nn.Module:
    """Return the module inside DataParallel and the like; raise a TypeError for anything that cannot be followed."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"{where}: model must be a torch.nn.Module, got {type(model).__name__}")
    if isinstance(model, torch.jit.ScriptModule):
        raise TypeError(f"{where}: model must not be a ScriptModule; pass the module that was scripted")
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        return unwrapped(model.get_submodule("module"), where)
    return model


def check_materialised(modules: Iterable[nn.Module], where: str) -> None:
    """Raise a ValueError if there are lazy layers that have no weights yet."""
    lazy = nn.parameter.UninitializedParameter
    if any(isinstance(p, lazy) for module in modules for p in module._parameters.values()):
        raise ValueError(f"{where}: the model has lazy layers that are not yet materialised; run it once first")


def arguments(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the keyword arguments that an example stands for: a tensor, a tuple or a dict.

    Tensors are copied, because a model may change what it is given in place.
    """
    example = tree_map_only(Tensor, _copied, example)
    if isinstance(example, Mapping):
        return (), dict(example)
    return (tuple(example), {}) if isinstance(example, tuple | list) else ((example,), {})


def _copied(tensor: Tensor) -> Tensor:
    with torch.no_grad():
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def follow_code(trace: Trace) -> str:
    """Follow the signal through the model's code without running it; return why that failed, or ""."""
    trace.checks_channels = True
    try:
        with undisturbed(trace.names, evaluating=True):
            if passes_through(trace):
                return ""
            graph = _Tracer(trace).trace(trace.model)
        _follow_graph(trace, graph)
    except Exception as error:  # whatever the model's own code raises when given a proxy
        trace.clear()
        return f"{type(error).__name__.strip('_')}: {str(error).partition(chr(10))[0]}".rstrip(": ")
    finally:
        trace.checks_channels = False
    return ""


class _Tracer(fx.Tracer):
    """Traces into every module that is not taken as a whole."""

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.signals = trace

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return self.signals.is_leaf(m)


def _follow_graph(trace: Trace, graph: fx.Graph) -> None:
    signals: dict[fx.Node, Signal | None] = {}
    for node in graph.nodes:
        inputs = [signal for n in node.all_input_nodes if (signal := signals[n]) is not None]
        signals[node] = _through_node(trace, node, inputs)
        if node.all_input_nodes and _is_in_place(trace, node):
            signals[node.all_input_nodes[0]] = signals[node]
        if node.op == "output":
            trace.returned(inputs)


def _is_in_place(trace: Trace, node: fx.Node) -> bool:
    """Return whether an operation changes what it reads, so that later uses of that see the result."""
    if node.op == "call_module":
        return bool(getattr(trace.model.get_submodule(str(node.target)), "inplace", False))
    return node.op in ("call_function", "call_method") and works_in_place(_function(node), node.kwargs)


def _through_node(trace: Trace, node: fx.Node, signals: list[Signal]) -> Signal | None:
    if node.op == "placeholder":
        return trace.enter()
    if node.op == "call_module":
        return trace.through_module(trace.model.get_submodule(str(node.target)), signals)
    if node.op not in ("call_function", "call_method"):
        return None
    name = _function(node)
    if name == "getattr":
        attribute = str(node.args[1])
        name = attribute if attribute in QUERIES else "getattr"
    has_parameters = any(each.op == "get_attr" for each in node.all_input_nodes)
    return trace.through_function(name, signals, node.args, node.kwargs, has_parameters)


def _function(node: fx.Node) -> str:
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))

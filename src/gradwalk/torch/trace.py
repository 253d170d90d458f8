"""Three ways of following a signal through a network.

A plain `nn.Sequential` is walked; else a stand-in goes through the model's code, and where it cannot, torch.fx traces
it; where there is an example, the model runs once on it and every torch function it calls is watched.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from gradwalk.torch.path import SHAPES, Path, Signal
from gradwalk.torch.standin import comes_through


def follow(path: Path, model: nn.Module, example: Any) -> str:
    """Follow the signal from the input on; return why that failed, or ""."""
    if _is_chain(model, path):
        _walk(path, model)
        return ""
    if example is None:
        return _trace(path, model)
    _run(path, model, example)
    return ""


def _is_chain(model: nn.Module, path: Path) -> bool:
    return all(map(path.is_leaf, _leaves(model)))


def _walk(path: Path, model: nn.Module) -> None:
    signal = Signal()
    for module in _leaves(model):
        signal = path.module(path.names[module], module, [signal])


def _leaves(model: nn.Module) -> Iterator[nn.Module]:
    if type(model) is not nn.Sequential:
        yield model
        return
    for child in model:
        yield from _leaves(child)


class _Tracer(fx.Tracer):
    """Looks into every module that has no role of its own."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return self.path.is_leaf(m)


def _trace(path: Path, model: nn.Module) -> str:
    """Follow the signal through the model's code without running it; return why that failed, or ""."""
    try:
        with _undisturbed(path.names):
            if comes_through(path, model):
                return ""
            graph = _Tracer(path).trace(model)
        _follow_graph(path, graph)
    except Exception as error:  # whatever the model's own code raises when given a proxy
        return f"{type(error).__name__.strip('_')}: {str(error).partition(chr(10))[0]}".rstrip(": ")
    return ""


def _follow_graph(path: Path, graph: fx.Graph) -> None:
    signals: dict[fx.Node, Signal | None] = {}
    for node in graph.nodes:
        signals[node] = _behind(path, node, [s for n in node.all_input_nodes if (s := signals[n]) is not None])


def _behind(path: Path, node: fx.Node, signals: list[Signal]) -> Signal | None:
    if node.op == "placeholder":
        return Signal()
    if node.op == "call_module":
        return path.module(str(node.target), path.model.get_submodule(str(node.target)), signals)
    if node.op not in ("call_function", "call_method"):
        return None
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    if name == "getattr":
        name = str(node.args[1])
        name = name if name in SHAPES else "getattr"
    parameters = any(each.op == "get_attr" for each in node.all_input_nodes)
    return path.function(name, signals, node.args, node.kwargs, parameters)


class _Watch(TorchFunctionMode):
    """Follows the signal while the model runs; inside a module that has a role, only its end counts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.signals: Any = WeakIdKeyDictionary()
        self.inside = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if not self.inside:
            tensors = _tensors((args, kwargs))
            parameters = any(isinstance(each, nn.Parameter) for each in tensors)
            name = getattr(func, "__name__", str(func))
            self.settle(out, self.path.function(name, self.known(tensors), args, kwargs or {}, parameters))
        return out

    def known(self, tensors: Iterable[torch.Tensor]) -> list[Signal]:
        return [self.signals[each] for each in tensors if each in self.signals]

    def settle(self, out: Any, signal: Signal | None) -> None:
        for each in _tensors(out):
            if signal is None:
                self.signals.pop(each, None)
            else:
                self.signals[each] = signal

    def enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self.inside += 1

    def leave(self, name: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, kwargs: Any, out: Any) -> None:
            self.inside -= 1
            if not self.inside:
                self.settle(out, self.path.module(name, module, self.known(_tensors((args, kwargs)))))

        return hook


def _run(path: Path, model: nn.Module, example: Any) -> None:
    """Follow the signal through one run of the model, in evaluation mode and without gradient."""
    if any(isinstance(p, nn.parameter.UninitializedParameter) for p in model.parameters()):
        raise ValueError("find_layers: running the example would materialise lazy modules; run the model once first")
    args, kwargs = _call(example)
    watch = _Watch(path)
    for each in _tensors((args, kwargs)):
        if each.is_floating_point():
            watch.signals[each] = Signal()
    handles = []
    for module, name in path.names.items():
        if path.roles[module]:
            handles.append(module.register_forward_pre_hook(watch.enter, with_kwargs=True))
            handles.append(module.register_forward_hook(watch.leave(name), with_kwargs=True))
    try:
        with _undisturbed(path.names), torch.no_grad(), watch:
            model(*args, **kwargs)
    except Exception as error:
        raise ValueError(f"find_layers: the model does not run on the example: {error}") from error
    finally:
        for handle in handles:
            handle.remove()


def _call(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example, Mapping):
        return (), dict(example)
    return (tuple(example), {}) if isinstance(example, tuple | list) else ((example,), {})


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


@contextmanager
def _undisturbed(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Put all modules into evaluation mode, and each one's own mode and the random state back afterwards."""
    modes = [(module, module.training) for module in modules]
    owned = [p for module, _ in modes for p in module._parameters.values() if p is not None]
    with torch.random.fork_rng(devices={p.get_device() for p in owned if p.is_cuda}):
        try:
            for module, _ in modes:
                object.__setattr__(module, "training", False)  # that of nn.Module looks for parameters and is slow
            yield
        finally:
            for module, mode in modes:
                object.__setattr__(module, "training", mode)

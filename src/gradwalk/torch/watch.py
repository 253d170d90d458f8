"""Follow signals while a model runs: every torch function that it calls is watched."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from gradwalk.torch.graph import Op
from gradwalk.torch.roles import Role
from gradwalk.torch.signals import Signal
from gradwalk.torch.trace import Sizes, Trace

_MEASURED = (Op.MIXING, Op.UNKNOWN, Op.PRODUCT)  # what theory does not have is taken from the run
Seen = Callable[[int, torch.Tensor], None]


@contextmanager
def watched(trace: Trace, inputs: Any, seen: Seen | None = None) -> Iterator[None]:
    """Follow the signals of a model's run inside this context, from the floating-point tensors among its inputs.

    `seen` is called with the place of a node and each tensor that carries its signal. Hooks of others that replace a
    module's output must have been registered before.
    """
    watch = _Watch(trace, seen)
    for tensor in _tensors(inputs):
        if tensor.is_floating_point():
            watch.signals[tensor] = trace.enter()
    handles = [trace.model.register_forward_hook(watch.finish)]
    for module in trace.names:
        if trace.roles[module] is not Role.UNKNOWN:
            handles.append(module.register_forward_pre_hook(watch.enter, with_kwargs=True))
            handles.append(module.register_forward_hook(watch.leave, with_kwargs=True))
    try:
        with watch:
            yield
    finally:
        for handle in handles:
            handle.remove()


class _Watch(TorchFunctionMode):
    """Knows the signal of each tensor; of a module that has a role only the input and the output count."""

    def __init__(self, trace: Trace, seen: Seen | None) -> None:
        super().__init__()
        self.trace, self.seen = trace, seen
        self.signals: Any = WeakIdKeyDictionary()
        self.inside = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        if not self.inside:
            tensors = _tensors((args, kwargs))
            has_parameters = any(isinstance(tensor, nn.Parameter) for tensor in tensors)
            name = getattr(func, "__name__", str(func))
            known, sizes = self.known(tensors), _sizes(tensors, output)
            self.settle(output, self.trace.through_function(name, known, args, kwargs or {}, has_parameters, sizes))
        return output

    def known(self, tensors: Iterable[torch.Tensor]) -> list[Signal]:
        return [self.signals[tensor] for tensor in tensors if tensor in self.signals]

    def settle(self, output: Any, signal: Signal | None) -> None:
        tensors = _tensors(output)
        if signal is not None and tensors and self.trace.nodes[signal.node].op in _MEASURED:
            self.inside += 1  # what follows is not the model's
            self.trace.squares[signal.node] = float(_size(tensors[0]))
            self.inside -= 1
        for tensor in tensors:
            if signal is None:
                self.signals.pop(tensor, None)
            else:
                self.signals[tensor] = signal
                if self.seen is not None:
                    self.inside += 1  # what it computes is no part of the model
                    self.seen(signal.node, tensor)
                    self.inside -= 1

    def enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self.inside += 1

    def leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        self.inside -= 1
        if not self.inside:
            tensors = _tensors((args, kwargs))
            self.settle(output, self.trace.through_module(module, self.known(tensors), _sizes(tensors, output)))

    def finish(self, module: nn.Module, args: Any, output: Any) -> None:
        if not self.inside:
            self.trace.returned(self.known(_tensors(output)))


def _size(tensor: torch.Tensor) -> torch.Tensor:
    """Return the mean square of the values, in double precision."""
    values = tensor.detach().abs() if tensor.is_complex() else tensor.detach()
    return values.double().square().mean()


def _sizes(tensors: list[torch.Tensor], output: Any) -> Sizes | None:
    returned = _tensors(output)
    return Sizes(tensors[0].shape, returned[0].shape) if tensors and returned else None


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]

"""The runs of the weight layers during one pass through a model: what each of them reads and returns."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gradwalk.torch.roles import Role

_BARE = frozenset({Role.WEIGHTS, Role.ACTIVATION, Role.PASSING, Role.DROPOUT})


@dataclass(eq=False, slots=True)
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


class Calls:
    """Collects the runs of some weight layers, in the order they run."""

    def __init__(self, layers: Mapping[nn.Module, str]) -> None:
        self.layers = layers
        self.list: list[Call] = []
        self.hidden: set[nn.Module] = set()
        self.runs = dict.fromkeys(layers, 0)

    def add(self, module: nn.Module, read: Tensor, output: Tensor) -> Tensor:
        """Add the run of a layer; return its output, which is part of a graph even if all was frozen so far."""
        output = output if output.requires_grad else output.detach().requires_grad_()
        self.runs[module] += 1
        name = self.layers[module] if self.runs[module] == 1 else f"{self.layers[module]}#{self.runs[module]}"
        self.list.append(Call(name, module, read, output, read._version))
        return output

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Collect them by hooks; each layer passes on a copy, so that its output is not changed in place.

        Layers that run without gradient, as they do inside a reentrant checkpoint, are hidden.
        """

        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Tensor | None:
            read = next((each for each in (*args, *kwargs.values()) if isinstance(each, Tensor)), None)
            if not isinstance(output, Tensor) or read is None or not torch.is_grad_enabled():
                self.hidden.add(module)
                return None
            copy: Tensor = self.add(module, read, output).clone()
            return copy

        handles = [module.register_forward_hook(hook, with_kwargs=True) for module in self.layers]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def through(self, modules: Sequence[nn.Module], x: Tensor) -> Tensor:
        """Return the output of a bare chain, run module by module: what the hooks do takes as long as a small layer."""
        for module in modules:
            read, x = x, module(x)
            if module in self.layers:
                x = self.add(module, read, x)
        return x.clone()  # the loss may change it in place


def is_bare(chain: Sequence[nn.Module], containers: Sequence[nn.Module], roles: Mapping[nn.Module, Role]) -> bool:
    """Return whether a chain can be run module by module: torch's own modules, without hooks and changes in place."""
    kinds = {type(module) for module in chain}
    if not all(kind.__module__.startswith("torch.nn.modules.") for kind in kinds):
        return False
    fine = all(roles[module] in _BARE and not vars(module).get("inplace") for module in chain)
    return fine and not any(map(_is_altered, [*containers, *chain]))


def _is_altered(module: nn.Module) -> bool:
    hooks = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    return bool(hooks) or "forward" in vars(module)

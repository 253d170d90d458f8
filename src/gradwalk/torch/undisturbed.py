"""Run or trace a model and leave it as it was."""

import sys
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import nn


@contextmanager
def undisturbed(modules: Collection[nn.Module], *, evaluating: bool = False) -> Iterator[None]:
    """Restore the modes and buffers of a model's modules, and the random state, on exit.

    Meanwhile compiled models run eagerly, since hooks and traces do not go with torch.compile; with `evaluating`, all
    modules are in evaluation mode.
    """
    modes = [(module, module.training) for module in modules]
    buffers = [(module, dict(module._buffers)) for module in modules if module._buffers]
    without = [module for module in modules if not module._buffers]
    values = {id(buffer): buffer.clone() for _, own in buffers for buffer in own.values() if buffer is not None}
    parameters = (p for module in modules for p in module._parameters.values() if p is not None)
    with _eager(), torch.random.fork_rng(devices=sorted({p.get_device() for p in parameters if p.is_cuda})):
        try:
            if evaluating:
                for module in modules:
                    _set_mode(module, False)
            yield
        finally:
            for module, mode in modes:
                if module.training != mode:
                    _set_mode(module, mode)
            with torch.no_grad():
                for module in without:
                    module._buffers.clear()
                for module, own in buffers:
                    for name in module._buffers.keys() - own.keys():
                        del module._buffers[name]
                    module._buffers.update(own)
                    for buffer in own.values():
                        if buffer is not None and not torch.equal(buffer, values[id(buffer)]):
                            buffer.data.copy_(values[id(buffer)])  # .data: a graph that holds it stays valid


def _eager() -> AbstractContextManager[object]:
    """Return a context in which compiled code runs eagerly; nothing is compiled unless the compiler is loaded."""
    if "torch._dynamo" not in sys.modules or not hasattr(torch.compiler, "set_stance"):  # new in torch 2.6
        return nullcontext()
    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance


def _set_mode(module: nn.Module, training: bool) -> None:
    object.__setattr__(module, "training", training)  # nn.Module's own looks for parameters and is slow

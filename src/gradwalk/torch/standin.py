"""A stand-in for a tensor that is followed through the model's own code, many times quicker than torch.fx does it.

It knows modules, functions of torch, methods of tensors and sums. Anything else, a branch above all, stops it, so that
where it comes through torch.fx goes the same way or none.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn

import torch
from torch import nn

from gradwalk.torch.path import Path, Signal

_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device)
_CALL = "_compiled_call_impl"  # nn.Module.__call__ runs it where it is set, and then leaves hooks out


def comes_through(path: Path, model: nn.Module) -> bool:
    """Follow a stand-in for every input through the model; return whether that went well, else nothing is kept."""
    try:
        forward = type(model).forward
        code = inspect.unwrap(forward).__code__
        if code.co_kwonlyargcount or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            return False
        with _answering(path):
            forward(model, *(StandIn(path, Signal()) for _ in range(code.co_argcount - 1)))
    except Exception:  # whatever the model's own code raises when given one
        path.readings.clear()
        return False
    return True


class StandIn:
    """A tensor of which only the signal is known; None where it carries none, as a size."""

    def __init__(self, path: Path, signal: Signal | None) -> None:
        self.path = path
        self.signal = signal

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> "StandIn":
        return _behind(func.__name__, *args, **(kwargs or {}))

    def __getattr__(self, name: str) -> Callable[..., "StandIn"]:
        if name.startswith("_") or not callable(getattr(torch.Tensor, name, None)):
            self._stop()
        return partial(_behind, name, self)

    def __add__(self, other: Any) -> "StandIn":
        return _behind("add", self, other)

    def __radd__(self, other: Any) -> "StandIn":
        return _behind("add", other, self)

    def _stop(self, *_: Any) -> NoReturn:
        raise TypeError("a stand-in has no value")

    __bool__ = __eq__ = __ne__ = _stop
    __hash__ = None  # type: ignore[assignment]


def _behind(function: str, *args: Any, **kwargs: Any) -> StandIn:
    inputs = _inputs(args, kwargs)
    path = inputs[0].path
    return StandIn(path, path.function(function, _signals(inputs), args, kwargs, parameters=False))


def _inputs(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[StandIn]:
    """Return the stand-ins among the arguments, each once; beside them only plain values are allowed."""
    found: dict[int, StandIn] = {}
    for each in (*args, *kwargs.values()):
        if isinstance(each, StandIn):
            found[id(each)] = each
        elif isinstance(each, tuple | list):
            found |= {id(inner): inner for inner in _inputs(each, {})}
        elif not isinstance(each, _PLAIN):
            raise TypeError(f"a stand-in does not go with {type(each).__name__}")
    return list(found.values())


def _signals(inputs: Iterable[StandIn]) -> list[Signal]:
    return [each.signal for each in inputs if each.signal is not None]


@contextmanager
def _answering(path: Path) -> Iterator[None]:
    """Have every module that is not looked into answer by the rules of the path, and put them back afterwards."""
    before = []
    for module, name in path.names.items():
        if path.is_leaf(module):
            before.append((vars(module), vars(module).get(_CALL)))
            vars(module)[_CALL] = partial(_behind_module, path, name, module)
    try:
        yield
    finally:
        for own, call in before:
            del own[_CALL]
            if call is not None:
                own[_CALL] = call


def _behind_module(path: Path, name: str, module: nn.Module, *args: Any, **kwargs: Any) -> StandIn:
    return StandIn(path, path.module(name, module, _signals(_inputs(args, kwargs))))

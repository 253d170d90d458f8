"""A stand-in for a tensor that goes through the model's own code, many times faster than torch.fx traces it.

It knows modules, torch functions, tensor methods and sums. Anything else, above all a branch on a value, stops it, so
that where it gets through, torch.fx follows the same path or none.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from gradwalk.torch.signals import Signal
from gradwalk.torch.trace import Trace

_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device)
_CALL = "_compiled_call_impl"  # nn.Module.__call__ runs it where it is set, and then runs no hooks


def passes_through(trace: Trace) -> bool:
    """Pass one stand-in per input through the model; return whether that succeeded, else clear the trace."""
    try:
        forward = type(trace.model).forward
        code = inspect.unwrap(forward).__code__
        if code.co_kwonlyargcount or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            return False
        with _answering(trace):
            output = forward(trace.model, *(StandIn(trace, trace.enter()) for _ in range(code.co_argcount - 1)))
    except Exception:  # whatever the model's own code raises when given one
        trace.clear()
        return False
    trace.returned(_signals(leaf for leaf in tree_leaves(output) if isinstance(leaf, StandIn)))
    return True


class StandIn:
    """A tensor of which only the signal is known; None where it carries none, such as a size."""

    def __init__(self, trace: Trace, signal: Signal | None) -> None:
        self.trace = trace
        self.signal = signal

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> "StandIn":
        return _through(func.__name__, *args, **(kwargs or {}))

    def __getattr__(self, name: str) -> Callable[..., "StandIn"]:
        if name.startswith("_") or not callable(getattr(torch.Tensor, name, None)):
            self._stop()
        return partial(_through, name, self)

    def __add__(self, other: Any) -> "StandIn":
        return _through("add", self, other)

    def __radd__(self, other: Any) -> "StandIn":
        return _through("add", other, self)

    def _stop(self, *_: Any) -> NoReturn:
        raise TypeError("a stand-in has no value")

    __bool__ = __eq__ = __ne__ = _stop
    __hash__ = None  # type: ignore[assignment]


def _through(function: str, *args: Any, **kwargs: Any) -> StandIn:
    inputs = _inputs(args, kwargs)
    trace = inputs[0].trace
    signal = trace.through_function(function, _signals(inputs), args, kwargs, has_parameters=False)
    if works_in_place(function, kwargs):
        inputs[0].signal = signal
    return StandIn(trace, signal)


def works_in_place(function: str, kwargs: Mapping[str, Any]) -> bool:
    """Return whether a function or method changes its first argument, as `relu_` and `relu(inplace=True)` do."""
    return bool(kwargs.get("inplace")) or (function.endswith("_") and not function.endswith("__"))


def _through_module(trace: Trace, module: nn.Module, *args: Any, **kwargs: Any) -> StandIn:
    inputs = _inputs(args, kwargs)
    signal = trace.through_module(module, _signals(inputs))
    if getattr(module, "inplace", False):
        inputs[0].signal = signal
    return StandIn(trace, signal)


def _inputs(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[StandIn]:
    """Return the stand-ins among the arguments, each once; all others must be plain values."""
    inputs: dict[int, StandIn] = {}
    for argument in (*args, *kwargs.values()):
        if isinstance(argument, StandIn):
            inputs[id(argument)] = argument
        elif isinstance(argument, tuple | list):
            inputs |= {id(inner): inner for inner in _inputs(argument, {})}
        elif not isinstance(argument, _PLAIN):
            raise TypeError(f"a stand-in cannot be combined with a value of type {type(argument).__name__}")
    return list(inputs.values())


def _signals(inputs: Iterable[StandIn]) -> list[Signal]:
    return [each.signal for each in inputs if each.signal is not None]


@contextmanager
def _answering(trace: Trace) -> Iterator[None]:
    """Make every module that is taken as a whole answer with a stand-in; restore the modules on exit."""
    before = []
    for module in trace.names:
        if trace.is_leaf(module):
            before.append((vars(module), vars(module).get(_CALL)))
            vars(module)[_CALL] = partial(_through_module, trace, module)
    try:
        yield
    finally:
        for own, call in before:
            del own[_CALL]
            if call is not None:
                own[_CALL] = call

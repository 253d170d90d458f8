"""The rules by which modules and functions change what is known of a signal on its way through a network."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import fx, nn

from gradwalk.activations import Activation, activation
from gradwalk.torch.counterparts import counterpart, counterpart_of_function
from gradwalk.torch.modules import role_of

# Notes on a layer. The first three: no drift is predicted for it.
RESIDUAL = "residual: outside the theory"
NORM = "norm: outside the theory"
ATTENTION = "attention: outside the theory"
RECURRENT = "recurrent: outside the theory"
REPEATED = "called more than once: outside the theory"
POOLING = "pooling: not counted"
SCALED = "scaled: not counted"
UNTRACED = "path not traced: order of registration"
GIVEN = "activation as given, not found"

LINEAR = activation("linear")
_FX = fx.Tracer()  # its rule of which modules not to look into: all of torch.nn but Sequential


class Signal(NamedTuple):
    """What is known of a tensor on its way: `activation` is None where it is not known, and `why` says so."""

    activation: Activation | None = LINEAR
    position: int = 0
    notes: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()
    why: str = ""
    channels: int = 0  # 0: not known

    def noted(self, note: str) -> "Signal":
        return self._replace(notes=self.notes | {note})

    def unknown(self, why: str) -> "Signal":
        return self._replace(activation=None, why=why, channels=0)


@dataclass
class Reading:
    signal: Signal
    notes: set[str] = field(default_factory=set)


SHAPES = {"size", "dim", "numel", "ndimension", "shape", "device", "dtype", "ndim", "get_device", "is_floating_point"}
_PASSING = frozenset(
    (  # noqa: SIM905
        "view view_as reshape reshape_as flatten unflatten transpose permute contiguous squeeze unsqueeze t "
        "movedim moveaxis swapaxes swapdims expand expand_as repeat repeat_interleave pad roll flip narrow "
        "select index_select gather chunk split tensor_split unbind getitem getattr get to float half double "
        "bfloat16 type type_as clone detach cpu cuda dropout dropout1d dropout2d dropout3d alpha_dropout "
        "feature_alpha_dropout pixel_shuffle pixel_unshuffle interpolate unfold masked_fill "
    ).split()
)
_MERGING = {"add", "radd", "iadd", "sub", "rsub", "isub", "cat", "concat", "concatenate", "stack", "hstack", "lerp"}
_PRODUCTS = {"mul", "rmul", "imul", "div", "truediv", "itruediv", "multiply", "divide", "neg"}
_MATRICES = {"matmul", "rmatmul", "imatmul", "mm", "bmm", "einsum", "addmm", "baddbmm", "linear", "tensordot"}
_ATTENTION = {"scaled_dot_product_attention", "multi_head_attention_forward", "flex_attention"}


class Mistraced(Exception):
    """torch.fx went another way than the model does: a proxy is no tensor, so `isinstance` misleads it."""


class Path:
    """The rules by which modules and functions change a signal; `readings` gathers what the weight layers read."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.readings: dict[str, Reading] = {}
        self.names = {module: name for name, module in model.named_modules()}
        self.roles = {module: role_of(module) for module in self.names}

    def is_leaf(self, module: nn.Module) -> bool:
        """Return whether a module is taken as a whole rather than looked into."""
        return bool(self.roles.get(module)) or _FX.is_leaf_module(module, "")

    def module(self, name: str, module: nn.Module, signals: Sequence[Signal]) -> Signal:
        """Return the signal behind a module."""
        role = self.roles[module]
        signal = signals[0] if signals else Signal()
        if role == "weights":
            return self._weights(name, module, signal)
        if role == "activation":
            reads = counterpart(module)
            assert reads is not None
            return _activated(signal, reads)
        if role == "embedding":
            return Signal()
        if role in ("attention", "recurrent"):
            note = ATTENTION if role == "attention" else RECURRENT
            return Signal(LINEAR, signal.position, frozenset({note}), signal.sources)
        if role in ("norm", "pooling"):
            return signal.noted(NORM if role == "norm" else POOLING)
        if role == "passing":
            return signal._replace(channels=0)
        return signal.unknown(f"it reads the output of {type(module).__name__}, which gradwalk does not know")

    def function(
        self, name: str, signals: Sequence[Signal], args: Sequence[Any], kwargs: Mapping[str, Any], parameters: bool
    ) -> Signal | None:
        """Return the signal behind a function or a method; `parameters`: it was also given a parameter."""
        name = name.strip("_")
        if not signals or name in SHAPES or name == "embedding":
            return None if name != "embedding" else Signal()
        signal = signals[0]
        reads = counterpart_of_function(name, args, kwargs)
        if reads is not None:
            return _activated(signal, reads)
        if name in _PASSING:
            return signal._replace(channels=0)
        if "norm" in name and name != "norm":
            return signal.noted(NORM)
        if "pool" in name or name in ("mean", "sum", "amax", "max"):
            return signal.noted(POOLING)
        if name in _MERGING:
            return self._merged(signals)
        if name in _ATTENTION or (name in _MATRICES and len(signals) > 1):
            return self._merged(signals, ATTENTION)._replace(activation=LINEAR)
        if name in _MATRICES or re.match(r"conv(_transpose)?[123]d$", name):
            return Signal(position=signal.position + 1) if parameters else signal.noted(SCALED)
        if name in _PRODUCTS and len(signals) == 1:
            return signal.noted(SCALED)
        return signal.unknown("it reads a product of two signals" if name in _PRODUCTS else f"it reads {name}()")

    def _weights(self, name: str, module: nn.Module, signal: Signal) -> Signal:
        reads, gives = _ends(module)
        if signal.channels and reads and signal.channels != reads:
            raise Mistraced(f"{name!r} reads {reads} channels, and the trace says {signal.channels}")
        if name in self.readings:
            self.readings[name].notes.add(REPEATED)
        else:
            self.readings[name] = Reading(signal)
        return Signal(LINEAR, signal.position + 1, sources=frozenset({name}), channels=gives)

    def _merged(self, signals: Sequence[Signal], note: str = RESIDUAL) -> Signal:
        """Return the signal where branches come together; the layers they come from are noted too."""
        position = max(signal.position for signal in signals)
        sources = frozenset[str]().union(*(signal.sources for signal in signals))
        notes = frozenset[str]().union(*(signal.notes for signal in signals))
        if len(signals) > 1 and position > 0:
            notes |= {note}
            for source in sources & self.readings.keys():
                self.readings[source].notes.add(note)
        names = sorted({signal.activation.name if signal.activation else "unknown" for signal in signals})
        why = next((signal.why for signal in signals if signal.why), f"it reads a sum of {' and '.join(names)}")
        reads = signals[0].activation if len(names) == 1 else None
        return Signal(reads, position, notes, sources, why)


def _ends(module: nn.Module) -> tuple[int, int]:
    """Return how many channels or features a layer reads and gives, 0 where it does not say."""
    own = vars(module)
    if "in_channels" in own:
        return own["in_channels"], own["out_channels"]
    return own.get("in_features", 0), own.get("out_features", 0)


def _activated(signal: Signal, reads: Activation) -> Signal:
    """Return the signal behind an activation; of two in a row, without a norm between, nothing is known."""
    if reads.name == "linear":
        return signal
    behind = signal.activation
    if (behind is None or behind.name != "linear") and NORM not in signal.notes:
        return signal.unknown(signal.why or f"it reads {reads} of {behind}")
    return signal._replace(activation=reads, why="")

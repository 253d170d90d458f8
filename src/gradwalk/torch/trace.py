"""The trace of a model: its dataflow, which weight layers ran in which order, and what each of them read."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import nn

from gradwalk.activations import Activation
from gradwalk.torch.counterparts import counterpart_of_function
from gradwalk.torch.graph import Node, Op, without_looks
from gradwalk.torch.pooling import dropout_rate, log_pooled
from gradwalk.torch.roles import Role, is_torch_leaf, role_of_function, role_of_module
from gradwalk.torch.signals import LINEAR, Merge, Note, Signal
from gradwalk.torch.weight_layers import channels


class Mistraced(Exception):
    """A symbolic trace took another path than the model: a proxy is no tensor, so that `isinstance` misleads it."""


class Sizes(NamedTuple):
    """The shapes of what a module or function reads and returns, known where the model runs on an example."""

    read: torch.Size
    returned: torch.Size


@dataclass(slots=True)
class Reading:
    """What a weight layer read when it ran first, and the notes on what became of its output."""

    signal: Signal
    notes: set[Note] = field(default_factory=set)
    sizes: Sizes | None = None


class Trace:
    """What following a signal through a model has shown.

    Layers inside attention, recurrent modules and norms do not appear.

    Attributes:
        names: of all its modules.
        roles: of all its modules.
        nodes: the dataflow.
        squares: the mean squares of the outputs of nodes whose law is not known, where the model was run.
        readings: per weight layer, in the order of their first run.
        order: the weight layers in the order they ran, each as often as it ran.
        merges: where signals came together.
        outputs: the signals that the model returned.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.names = {module: name for name, module in model.named_modules()}
        self.roles: dict[nn.Module, Role] = {}
        self.activations: dict[nn.Module, Activation] = {}
        for module in self.names:
            self.roles[module], activation = role_of_module(module)
            if activation is not None:
                self.activations[module] = activation
        self.checks_channels = False
        self.clear()

    @cached_property
    def parameters(self) -> dict[str, tuple[nn.Module, nn.Parameter]]:
        """The parameters by name, each once, with the module that holds it; of several modules the last."""
        names: dict[int, str] = {}
        held: dict[str, tuple[nn.Module, nn.Parameter]] = {}
        for module, prefix in self.names.items():
            for own, p in module._parameters.items():
                if p is not None:
                    held[names.setdefault(id(p), f"{prefix}.{own}" if prefix else own)] = module, p
        return held

    def clear(self) -> None:
        """Forget what was followed so far."""
        self.nodes: list[Node] = []
        self.squares: dict[int, float] = {}
        self.readings: dict[str, Reading] = {}
        self.order: list[str] = []
        self.merges: list[Merge] = []
        self.outputs: tuple[Signal, ...] = ()

    def returned(self, signals: Iterable[Signal]) -> None:
        """Take note of what the model returned, and forget what it only looked at."""
        self.outputs = tuple(signals)
        if self.outputs:
            self.nodes = without_looks(self.nodes, [signal.node for signal in self.outputs])

    def is_leaf(self, module: nn.Module) -> bool:
        """Return whether a module is taken as a whole rather than looked into."""
        return self.roles.get(module, Role.UNKNOWN) is not Role.UNKNOWN or is_torch_leaf(module)

    def enter(self) -> Signal:
        """Return a new signal that enters the model from outside."""
        return Signal(node=self._add(Op.INPUT, ()))

    def through_module(self, module: nn.Module, signals: Sequence[Signal], sizes: Sizes | None = None) -> Signal:
        """Return the signal after a module."""
        role, name = self.roles[module], self.names[module]
        signal = signals[0] if signals else self.enter()
        if role is Role.WEIGHTS:
            return self._through_weights(module, signal, sizes)
        if role is Role.ACTIVATION:
            return self._activated(signal, self.activations[module])
        if role is Role.NORM:
            return self._normed(signal, name, self._built_in(module))
        if role is Role.PRODUCT:
            return self._gated(name, signals)
        if role in (Role.ATTENTION, Role.RECURRENT):
            return self._mixed(name, signals, Note.ATTENTION if role is Role.ATTENTION else Note.RECURRENT)
        settings = {key: value for key, value in vars(module).items() if not key.startswith("_")}
        return self._through_role(role, type(module).__name__, name, signals or [signal], settings, sizes)

    def through_function(
        self,
        name: str,
        signals: Sequence[Signal],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        has_parameters: bool,
        sizes: Sizes | None = None,
    ) -> Signal | None:
        """Return the signal after a function or method, None if it returns none.

        has_parameters: whether parameters of the model are among its arguments.
        """
        name = name.strip("_")
        role = role_of_function(name)
        if role is Role.EMBEDDING:
            return Signal(node=self._add(Op.LOOKUP, ()))
        if not signals or role is Role.QUERY:
            return None
        signal = signals[0]
        activation = counterpart_of_function(name, args, kwargs)
        if activation is not None:
            return self._activated(signal, activation)
        if role is Role.NORM:
            return self._normed(signal, "", None)
        if role is Role.MERGE:
            return self._merged(name, signals)
        if role is Role.ATTENTION or (role is Role.MATRIX_PRODUCT and len(signals) > 1):
            return self._mixed(name, signals, Note.ATTENTION)
        if role is Role.MATRIX_PRODUCT and has_parameters:
            node = self._add(Op.MIXING, [signal], f"{name}()")
            return Signal(LINEAR, signal.position + 1, node=node).unknown(f"it reads {name}() of a bare parameter")
        if role is Role.PRODUCT and len(signals) == 1 and name != "glu":
            return self._scaled(signal, _factor(name, args))
        if role is Role.PRODUCT:
            return self._gated(name, signals)
        settings = dict(zip(("input", "p"), args, strict=False)) | dict(kwargs)
        return self._through_role(role, name, f"{name}()", signals, settings, sizes)

    def _through_role(
        self,
        role: Role,
        kind: str,
        name: str,
        signals: Sequence[Signal],
        settings: Mapping[str, Any],
        sizes: Sizes | None,
    ) -> Signal:
        """Return the signal after what modules and functions share; of several, the first is the one that passes."""
        signal = signals[0]
        if role is Role.PASSING:
            return signal._replace(channels=0)
        if role is Role.EMBEDDING:
            return Signal(node=self._add(Op.LOOKUP, (), name))
        if role is Role.DROPOUT:
            rate = dropout_rate(kind, settings)
            if rate == 0:
                return signal
            dropped = signal.noted(Note.DROPOUT) if rate is None else signal.dropped(rate)
            return dropped._replace(node=self._add(Op.DROPOUT, [signal], name, amount=rate), channels=0)
        if role is Role.POOLING:
            return self._pooled(kind, name, signal, settings, sizes)
        if role is Role.RESAMPLING:
            return signal.noted(Note.RESAMPLED)._replace(node=self._add(Op.POOLING, [signal], name), channels=0)
        if role is Role.MATRIX_PRODUCT:
            return self._scaled(signal, None)
        known = f"the output of {kind}, which gradwalk does not know" if not name.endswith("()") else name
        return signal.unknown(f"it reads {known}")._replace(node=self._add(Op.UNKNOWN, signals, name or kind))

    def _through_weights(self, module: nn.Module, signal: Signal, sizes: Sizes | None) -> Signal:
        name = self.names[module]
        expected, returned = channels(module) if self.checks_channels else (0, 0)
        if expected and signal.channels and signal.channels != expected:
            raise Mistraced(f"{name!r} reads {expected} channels, and the trace has {signal.channels}")
        if name in self.readings:
            self.readings[name].notes.add(Note.REPEATED)
        else:
            self.readings[name] = Reading(signal, sizes=sizes)
        self.order.append(name)
        node = self._add(Op.WEIGHTS, [signal], name or type(module).__name__)
        return Signal(LINEAR, signal.position + 1, sources=frozenset({name}), channels=returned, node=node)

    def _activated(self, signal: Signal, activation: Activation) -> Signal:
        if activation.name == "linear":
            return signal
        return signal.activated(activation, self._add(Op.ACTIVATION, [signal], activation=activation))

    def _normed(self, signal: Signal, name: str, activation: Activation | None) -> Signal:
        """Return the signal after a norm, and after the activation that some norms have built in."""
        node = self._add(Op.NORM, [signal], name)
        notes = frozenset({Note.NORM})
        normed = Signal(LINEAR, signal.position, notes, signal.sources, channels=signal.channels, node=node)
        return normed if activation is None else self._activated(normed, activation)

    def _built_in(self, norm: nn.Module) -> Activation | None:
        """Return the activation among the children of a norm, as timm's BatchNormAct2d has one."""
        inside = [self.activations[child] for child in norm.children() if child in self.activations]
        return next((each for each in inside if each.name != "linear"), None)

    def _pooled(self, kind: str, name: str, signal: Signal, settings: Mapping[str, Any], sizes: Sizes | None) -> Signal:
        shrinkage = None if sizes is None else sizes.read.numel() / max(sizes.returned.numel(), 1)
        log_factor, note = log_pooled(kind, settings, shrinkage)
        pooled = signal._replace(node=self._add(Op.POOLING, [signal], name), log_factor=signal.log_factor + log_factor)
        return pooled if note is None else pooled.noted(note)

    def _scaled(self, signal: Signal, factor: float | None) -> Signal:
        node = self._add(Op.SCALE, [signal], amount=factor)
        if not factor:
            return signal.noted(Note.SCALED)._replace(node=node)
        return signal._replace(node=node, log_factor=signal.log_factor + math.log(abs(factor)))

    def _gated(self, name: str, signals: Sequence[Signal]) -> Signal:
        node = self._add(Op.PRODUCT, signals, name)
        merged = self._together(name, signals, Note.GATED)
        return merged.unknown("it reads a product of two signals")._replace(node=node)

    def _mixed(self, name: str, signals: Sequence[Signal], note: Note) -> Signal:
        node = self._add(Op.MIXING, signals, name)
        merged = self._together(name, signals or [Signal()], note)
        return Signal(LINEAR, merged.position, frozenset({note}), merged.sources, node=node)

    def _merged(self, operation: str, signals: Sequence[Signal]) -> Signal:
        """Return the signal where branches come together; of one signal and a constant nothing is to be noted."""
        if len({signal.node for signal in signals}) == 1:
            return signals[0]
        joins = operation in ("cat", "concat", "concatenate", "stack", "hstack")
        node = self._add(Op.CONCAT if joins else Op.SUM, signals, operation)
        return self._together(operation, signals, Note.RESIDUAL)._replace(node=node)

    def _together(self, operation: str, signals: Sequence[Signal], note: Note) -> Signal:
        """Return what is known of several signals; the layers that they come from, but for norms, get the note too."""
        position = max(signal.position for signal in signals)
        sources = frozenset[str]().union(*(signal.sources for signal in signals))
        notes = frozenset[Note]().union(*(signal.notes for signal in signals))
        if len(signals) > 1 and position > 0:
            notes |= {note}
            self.merges.append(Merge(operation, note, tuple(signals)))
            reaching = frozenset[str]().union(*(signal.sources for signal in signals if Note.NORM not in signal.notes))
            for source in reaching & self.readings.keys():
                self.readings[source].notes.add(note)
        names = sorted({signal.activation.name if signal.activation else "unknown" for signal in signals})
        why = next((signal.why for signal in signals if signal.why), f"it reads {' and '.join(names)} together")
        known = signals[0].activation if len(names) == 1 else None
        return Signal(known, position, notes, sources, why, dropout=max(signal.dropout for signal in signals))

    def _add(
        self,
        op: Op,
        reads: Sequence[Signal],
        name: str = "",
        activation: Activation | None = None,
        amount: float | None = None,
    ) -> int:
        """Append a node and return its place."""
        self.nodes.append(Node(op, tuple([signal.node for signal in reads]), name, activation, amount))
        return len(self.nodes) - 1


def _factor(name: str, args: Sequence[Any]) -> float | None:
    """Return the constant that a signal is multiplied with, None where it is not a number."""
    if name == "neg":
        return 1.0
    others = [arg for arg in args if isinstance(arg, int | float)]
    tensors = [arg for arg in args if isinstance(arg, nn.Parameter)]
    if len(others) == 1 and others[0]:
        return 1 / others[0] if "div" in name and not name.startswith("r") else float(others[0])
    if len(tensors) == 1 and not tensors[0].is_meta:
        return float(tensors[0].detach().double().square().mean().sqrt())
    return None

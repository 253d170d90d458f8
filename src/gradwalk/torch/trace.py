"""The trace of a model: which weight layers ran in which order, what each read, and where signals merged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from gradwalk.activations import Activation
from gradwalk.torch.counterparts import counterpart_of_function
from gradwalk.torch.roles import Role, is_torch_leaf, role_of_function, role_of_module
from gradwalk.torch.signals import LINEAR, Merge, Note, Signal
from gradwalk.torch.weight_layers import channels


class Mistraced(Exception):
    """A symbolic trace took another path than the model: a proxy is no tensor, so that `isinstance` misleads it."""


@dataclass
class Reading:
    """What a weight layer read when it ran first, and the notes on what became of its output."""

    signal: Signal
    notes: set[Note] = field(default_factory=set)


class Trace:
    """What following a signal through a model has shown.

    names, roles: of all its modules. readings: per weight layer, in the order of their first run. order: the weight
    layers in the order they ran, each as often as it ran. merges: where signals came together. outputs: the signals
    that the model returned. Layers inside attention, recurrent modules and norms do not appear.
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

    def clear(self) -> None:
        """Forget what was followed so far."""
        self.readings: dict[str, Reading] = {}
        self.order: list[str] = []
        self.merges: list[Merge] = []
        self.outputs: tuple[Signal, ...] = ()

    def is_leaf(self, module: nn.Module) -> bool:
        """Return whether a module is taken as a whole rather than looked into."""
        return self.roles.get(module, Role.UNKNOWN) is not Role.UNKNOWN or is_torch_leaf(module)

    def through_module(self, module: nn.Module, signals: Sequence[Signal]) -> Signal:
        """Return the signal after a module."""
        role = self.roles[module]
        signal = signals[0] if signals else Signal()
        if role is Role.WEIGHTS:
            return self._through_weights(module, signal)
        if role is Role.ACTIVATION:
            return signal.activated(self.activations[module])
        if role is Role.EMBEDDING:
            return Signal()
        if role in (Role.ATTENTION, Role.RECURRENT):
            note = Note.ATTENTION if role is Role.ATTENTION else Note.RECURRENT
            return Signal(LINEAR, signal.position, frozenset({note}), signal.sources)
        if role in (Role.NORM, Role.POOLING):
            return signal.noted(Note.NORM if role is Role.NORM else Note.POOLING)
        if role is Role.PASSING:
            return signal._replace(channels=0)
        return signal.unknown(f"it reads the output of {type(module).__name__}, which gradwalk does not know")

    def through_function(
        self, name: str, signals: Sequence[Signal], args: Sequence[Any], kwargs: Mapping[str, Any], has_parameters: bool
    ) -> Signal | None:
        """Return the signal after a function or method, None if it returns none.

        has_parameters: whether parameters of the model are among its arguments.
        """
        name = name.strip("_")
        role = role_of_function(name)
        if role is Role.EMBEDDING:
            return Signal()
        if not signals or role is Role.QUERY:
            return None
        signal = signals[0]
        activation = counterpart_of_function(name, args, kwargs)
        if activation is not None:
            return signal.activated(activation)
        if role is Role.PASSING:
            return signal._replace(channels=0)
        if role in (Role.NORM, Role.POOLING):
            return signal.noted(Note.NORM if role is Role.NORM else Note.POOLING)
        if role is Role.MERGE:
            return self._merged(name, signals, Note.RESIDUAL)
        if role is Role.ATTENTION or (role is Role.MATRIX_PRODUCT and len(signals) > 1):
            return self._merged(name, signals, Note.ATTENTION)._replace(activation=LINEAR)
        if role is Role.MATRIX_PRODUCT:
            return Signal(position=signal.position + 1) if has_parameters else signal.noted(Note.SCALED)
        if role is Role.PRODUCT and len(signals) == 1:
            return signal.noted(Note.SCALED)
        return signal.unknown("it reads a product of two signals" if role is Role.PRODUCT else f"it reads {name}()")

    def _through_weights(self, module: nn.Module, signal: Signal) -> Signal:
        name = self.names[module]
        expected, returned = channels(module) if self.checks_channels else (0, 0)
        if expected and signal.channels and signal.channels != expected:
            raise Mistraced(f"{name!r} reads {expected} channels, and the trace has {signal.channels}")
        if name in self.readings:
            self.readings[name].notes.add(Note.REPEATED)
        else:
            self.readings[name] = Reading(signal)
        self.order.append(name)
        return Signal(LINEAR, signal.position + 1, sources=frozenset({name}), channels=returned)

    def _merged(self, operation: str, signals: Sequence[Signal], note: Note) -> Signal:
        """Return the signal where branches come together; the layers that they come from get the note too."""
        position = max(signal.position for signal in signals)
        sources = frozenset[str]().union(*(signal.sources for signal in signals))
        notes = frozenset[Note]().union(*(signal.notes for signal in signals))
        if len(signals) > 1 and position > 0:
            notes |= {note}
            self.merges.append(Merge(operation, note, tuple(signals)))
            for source in sources & self.readings.keys():
                self.readings[source].notes.add(note)
        names = sorted({signal.activation.name if signal.activation else "unknown" for signal in signals})
        why = next((signal.why for signal in signals if signal.why), f"it reads a sum of {' and '.join(names)}")
        return Signal(signals[0].activation if len(names) == 1 else None, position, notes, sources, why)

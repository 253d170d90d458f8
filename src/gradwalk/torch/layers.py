"""The weight layers of a model: what each of them reads, and which modules are left alone for what reason."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from torch import nn

from gradwalk import activations
from gradwalk.activations import Activation
from gradwalk.torch.follow import check_model, follow_chain, follow_code, follow_run
from gradwalk.torch.roles import Role
from gradwalk.torch.signals import Note, Signal
from gradwalk.torch.trace import Reading, Trace
from gradwalk.torch.weight_layers import fan_in


class Exclusion(Enum):
    """Why the parameters of a module are left alone."""

    NORM = "a norm resets the scale of the signal"
    EMBEDDING = "a lookup, not a product"
    RECURRENT = "the same weights at every time step"
    ATTENTION = "attention mixes by a softmax; its projections are not layers of the walk"
    PARAMETRISED = "parametrised: computed from other tensors"
    LAZY = "lazy and not yet materialised: run the model once first"
    SHARED = "its weight is shared with another module"
    UNKNOWN = "not a layer that gradwalk knows, with parameters of its own"
    UNREACHED = "not on the path from the input"

    def __str__(self) -> str:
        return self.value


_EXCLUDED_ROLES = {
    Role.NORM: Exclusion.NORM,
    Role.EMBEDDING: Exclusion.EMBEDDING,
    Role.RECURRENT: Exclusion.RECURRENT,
    Role.ATTENTION: Exclusion.ATTENTION,
}
_HIDING = (Exclusion.NORM, Exclusion.RECURRENT, Exclusion.ATTENTION, Exclusion.PARAMETRISED)  # with all modules inside


class WeightLayer(NamedTuple):
    """A layer whose weights `init_` draws.

    activation: the one whose output it reads. position: its place on the longest path from the input, 1 for the first
    layer. reads: the weight layers whose outputs it reads, through activations, norms and sums.
    """

    name: str
    module: nn.Module
    activation: Activation
    fan_in: int
    position: int
    notes: tuple[Note, ...] = ()
    reads: tuple[str, ...] = ()

    @property
    def outside(self) -> bool:
        """Whether the layer is outside the theory."""
        return any(note.outside for note in self.notes)


class LeftAlone(NamedTuple):
    """A module that is left alone: its name and class, the reason, and the parameters it is about if need be."""

    name: str
    kind: str
    reason: Exclusion
    parameters: tuple[str, ...] = ()

    @property
    def why(self) -> str:
        """The reason in words."""
        return f"{self.reason} ({', '.join(self.parameters)})" if self.parameters else str(self.reason)


@dataclass(frozen=True)
class Layers:
    """The weight layers of a model in the order they run, the modules left alone, and the trace behind both."""

    weight_layers: list[WeightLayer]
    left_alone: list[LeftAlone]
    trace: Trace

    @property
    def depth(self) -> int:
        """The number of weight layers on the longest path."""
        return max((layer.position for layer in self.weight_layers), default=0)


def find_layers(model: nn.Module, activation: str | Activation | None = None, example: Any = None) -> Layers:
    """Return the weight layers of a model with what each reads, and the modules that are left alone.

    `activation` is used where the one that a layer reads cannot be determined. `example` is any input (a tensor, a
    tuple of arguments or a dict of keywords) on which the model is run, once, in evaluation mode and without gradient.
    Without it the model is not run but traced symbolically; where that fails, a ValueError asks for one of the two. A
    plain `nn.Sequential` is neither run nor traced.

    >>> net = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 2))
    >>> [(layer.name, layer.activation.name, layer.fan_in) for layer in find_layers(net).weight_layers]
    [('0', 'linear', 8), ('2', 'tanh', 4)]
    """
    return layers_of(model, activation, example, "find_layers")


def layers_of(model: nn.Module, activation: str | Activation | None, example: Any, where: str) -> Layers:
    """Return what `find_layers` returns; errors begin with `where`, the function that the user called."""
    check_model(model, where)
    given = None if activation is None else activations.activation(activation)
    trace = Trace(model)
    candidates, left_alone = sort_out(trace)
    failure = "" if follow_chain(trace) else _follow(trace, example, where)
    if failure and given is None and candidates:
        raise ValueError(
            f"{where}: {type(model).__name__} cannot be traced ({failure}), so that it is not known what "
            f"{next(iter(candidates))!r} reads; pass example=, an input to run the model on, or activation="
        )
    if failure:
        trace.readings = _in_order_of_registration(candidates)
    layers = [
        _weight_layer(name, candidates[name], reading, given, where)
        for name, reading in trace.readings.items()
        if name in candidates
    ]
    unreached = [name for name in candidates if name not in trace.readings]
    left_alone += [LeftAlone(name, type(candidates[name]).__name__, Exclusion.UNREACHED) for name in unreached]
    return Layers(layers, left_alone, trace)


def _follow(trace: Trace, example: Any, where: str) -> str:
    if example is None:
        return follow_code(trace)
    follow_run(trace, example, where)
    return ""


def _weight_layer(name: str, module: nn.Module, reading: Reading, given: Activation | None, where: str) -> WeightLayer:
    signal = reading.signal
    activation = signal.activation or given
    if activation is None:
        raise ValueError(
            f"{where}: what {name!r} reads is not known ({signal.why}); pass activation=, which is used for all such "
            "layers"
        )
    notes = signal.notes | reading.notes | ({Note.GIVEN} if signal.activation is None else set())
    return WeightLayer(
        name or type(module).__name__,
        module,
        activation,
        fan_in(module),
        signal.position + 1,
        tuple(sorted(notes, key=str)),
        tuple(sorted(signal.sources)),
    )


def sort_out(trace: Trace) -> tuple[dict[str, nn.Module], list[LeftAlone]]:
    """Return the weight layers whose weights may be drawn, by name, and the modules to leave alone."""
    candidates: dict[str, nn.Module] = {}
    left_alone: list[LeftAlone] = []
    uses = Counter(id(p) for module in trace.names for p in module._parameters.values() if p is not None)
    hidden = "\0"  # prefix of the names inside the last module that hides its own; no name begins with NUL
    for module, name in trace.names.items():
        role = trace.roles[module]
        if role is Role.ACTIVATION or name.startswith(hidden):
            continue
        reason, own = _objection(module, uses) if role is Role.WEIGHTS else _excluded(module, role)
        if reason is not None:
            left_alone.append(LeftAlone(name or "(the model)", type(module).__name__, reason, own))
        elif role is Role.WEIGHTS:
            candidates[name] = module
        if reason in _HIDING:
            hidden = f"{name}." if name else ""
    return candidates, left_alone


def _excluded(module: nn.Module, role: Role) -> tuple[Exclusion | None, tuple[str, ...]]:
    """Return why a module without weights of the walk is left alone, if it has parameters of interest, and which."""
    if role is Role.UNKNOWN and any(p is not None for p in module._parameters.values()):
        return Exclusion.UNKNOWN, tuple(module._parameters)
    return _EXCLUDED_ROLES.get(role), ()


def _objection(module: nn.Module, uses: Mapping[int, int]) -> tuple[Exclusion | None, tuple[str, ...]]:
    """Return why the weights of a layer must not be drawn, if there is a reason."""
    weight = module._parameters.get("weight")
    if "parametrizations" in module._modules or weight is None:
        return Exclusion.PARAMETRISED, ()
    if isinstance(weight, nn.parameter.UninitializedParameter):
        return Exclusion.LAZY, ()
    return (Exclusion.SHARED if uses[id(weight)] > 1 else None), ()


def _in_order_of_registration(candidates: Mapping[str, nn.Module]) -> dict[str, Reading]:
    """Return what is assumed without a trace: the first layer reads the input, the others what the user gives."""
    first = Signal(notes=frozenset({Note.UNTRACED}))
    later = first.unknown("the model could not be traced")
    return {name: Reading(later._replace(position=n) if n else first) for n, name in enumerate(candidates)}

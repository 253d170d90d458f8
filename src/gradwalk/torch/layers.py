"""The weight layers of a model: what each of them reads, and which modules are left alone for what reason."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple

from torch import nn

from gradwalk.activations import Activation
from gradwalk.torch.follow import follow_chain, follow_code, follow_run, unwrapped
from gradwalk.torch.given import Given, given_for
from gradwalk.torch.roles import Role
from gradwalk.torch.sequential import read_off
from gradwalk.torch.signals import Note
from gradwalk.torch.trace import Reading, Sizes, Trace
from gradwalk.torch.weight_layers import computes_its_weights, fan_in, is_padded


class Exclusion(Enum):
    """Why the parameters of a module are left alone."""

    NORM = "a norm resets the scale of the signal"
    EMBEDDING = "a lookup, not a product"
    RECURRENT = "the same weights at every time step"
    ATTENTION = "attention mixes by a softmax; its projections are not layers of the walk"
    PARAMETRISED = "parametrised: computed from other tensors"
    LAZY = "lazy and not yet materialised: run the model once first"
    META = "on the meta device: there are no weights yet"
    COMPLEX = "complex weights"
    SUBCLASS = "its class has a forward of its own, which may compute other weights"
    SHARED = "its weight is shared with another module"
    FROZEN = "frozen: requires_grad is False"
    ADAPTER = "an adapter, which starts where its authors want it"
    UNKNOWN = "not a layer that gradwalk knows, with parameters of its own"
    UNREACHED = "not on the path from the input"

    def __str__(self) -> str:
        return self.value


UNDRAWABLE = (Exclusion.PARAMETRISED, Exclusion.LAZY, Exclusion.META, Exclusion.COMPLEX, Exclusion.UNREACHED)
_EXCLUDED_ROLES = {
    Role.NORM: Exclusion.NORM,
    Role.EMBEDDING: Exclusion.EMBEDDING,
    Role.RECURRENT: Exclusion.RECURRENT,
    Role.ATTENTION: Exclusion.ATTENTION,
}
_HIDING = (Exclusion.NORM, Exclusion.RECURRENT, Exclusion.ATTENTION)  # with all modules inside
_ADAPTERS = re.compile(r"(^|\.)(lora|ia3|adapters?)(_|\.|$)", re.IGNORECASE)


class WeightLayer(NamedTuple):
    """A layer with weights.

    Attributes:
        name: of the module in its model.
        module: the module.
        activation: the one whose output it reads, None where that is not known, for the reason in `why`.
        fan_in: the number of inputs that an output sums.
        position: its place on the longest path from the input, 1 for the first layer, 0 for one that is not reached.
        notes: what its numbers depend on.
        reads: the weight layers whose outputs it reads, through activations, norms and sums.
        why: the reason why its activation is unknown.
        dropout: the share of what it reads that dropout sets to zero.
        log_factor: see `Signal`.
        sizes: the shapes of its input and output, where the model was run.
        objection: why its weights are left alone unless it is named, if there is a reason.
    """

    name: str
    module: nn.Module
    activation: Activation | None
    fan_in: int
    position: int
    notes: tuple[Note, ...] = ()
    reads: tuple[str, ...] = ()
    why: str = ""
    dropout: float = 0.0
    log_factor: float = 0.0
    sizes: Sizes | None = None
    objection: Exclusion | None = None

    @property
    def outside(self) -> bool:
        """Whether the layer is outside the theory of chains."""
        return any(note.outside for note in self.notes)


class LeftAlone(NamedTuple):
    """A module that is left alone.

    Attributes:
        name: of the module in its model.
        kind: its class.
        reason: why it is left alone.
        parameters: the parameters that it is about, if not all.
    """

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
    """The layers of a model.

    Attributes:
        model: the model, without a wrapper such as DataParallel.
        weight_layers: in the order they run.
        left_alone: the other modules with parameters, with the reason.
        followed: the trace that both rest on, None for a plain chain, whose layers were read off.
    """

    model: nn.Module
    weight_layers: list[WeightLayer]
    left_alone: list[LeftAlone]
    followed: Trace | None = None

    @cached_property
    def trace(self) -> Trace:
        """The trace of the model."""
        if self.followed is not None:
            return self.followed
        trace = Trace(self.model)
        follow_chain(trace)
        return trace

    @property
    def depth(self) -> int:
        """The number of weight layers on the longest path."""
        return max((layer.position for layer in self.weight_layers), default=0)


def find_layers(model: nn.Module, activation: Given = None, example: Any = None) -> Layers:
    """Return the weight layers of a model with what each reads, and the modules that are left alone.

    Without an example the model is not run but traced symbolically. A plain `nn.Sequential` is neither run nor traced,
    unless it has padded convolutions and an example gives their sizes.

    Args:
        model: any torch.nn.Module.
        activation: the one that a layer reads where it cannot be determined: one for all of them, or a mapping from
            names or patterns such as "decoder.*" to activations.
        example: an input on which the model is run once, in evaluation mode and without gradient: a tensor, a tuple of
            arguments or a dict of keywords.

    Returns:
        The weight layers in the order they run, the modules left alone with the reason, and the trace behind both.

    Raises:
        ValueError: if the model cannot be traced without an example.

    >>> net = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 2))
    >>> [(layer.name, layer.activation.name, layer.fan_in) for layer in find_layers(net).weight_layers]
    [('0', 'linear', 8), ('2', 'tanh', 4)]
    """
    return layers_of(model, activation, example, "find_layers")


def layers_of(model: nn.Module, activation: Given, example: Any, where: str) -> Layers:
    """Return what `find_layers` returns; errors begin with `where`, the function that the user called."""
    model = unwrapped(model, where)
    plain = read_off(model)
    if plain is not None and not any(_ADAPTERS.search(name) for name, _, _ in plain):
        given_for(activation, where)
        return Layers(model, _plain_layers(plain), [])
    trace = Trace(model)
    runs = example is not None and any(is_padded(module) for module in trace.names)
    if runs or not follow_chain(trace):
        _follow(trace, example, sort_out(trace)[0], where)
    return layers_from(trace, activation, where)


def _plain_layers(plain: list[tuple[str, nn.Module, Activation]]) -> list[WeightLayer]:
    below = [(), *[(name,) for name, _, _ in plain]]
    return [
        WeightLayer(name, module, activation, fan_in(module), place + 1, (), below[place])
        for place, (name, module, activation) in enumerate(plain)
    ]


def layers_from(trace: Trace, activation: Given, where: str) -> Layers:
    """Return the weight layers and the modules left alone of a model whose signals were followed."""
    given = given_for(activation, where)
    objections, left_alone = sort_out(trace)
    modules = {name: module for module, name in trace.names.items()}
    layers = [
        _weight_layer(name, modules[name], reading, given(name), objections[name])
        for name, reading in trace.readings.items()
        if name in objections
    ]
    unreached = [name for name in objections if name not in trace.readings]
    layers += [_unreached(name, modules[name], objections[name]) for name in unreached]
    return Layers(trace.model, layers, left_alone, trace)


def _follow(trace: Trace, example: Any, layers: Mapping[str, object], where: str) -> None:
    if example is not None:
        follow_run(trace, example, where)
        return
    failure = follow_code(trace)
    if failure and layers:
        raise ValueError(
            f"{where}: {type(trace.model).__name__} cannot be traced ({failure}), so that it is not known what "
            f"{next(iter(layers))!r} reads; pass example=, an input to run the model on"
        )


def _weight_layer(
    name: str, module: nn.Module, reading: Reading, given: Activation | None, objection: Exclusion | None
) -> WeightLayer:
    signal = reading.signal
    notes = signal.notes | reading.notes
    if signal.activation is None and given is not None:
        notes |= {Note.GIVEN}
    return WeightLayer(
        name or type(module).__name__,
        module,
        signal.activation or given,
        _fan_in(module),
        signal.position + 1,
        tuple(sorted(notes, key=str)) if notes else (),
        tuple(sorted(signal.sources)),
        signal.why,
        signal.dropout,
        signal.log_factor,
        reading.sizes,
        objection,
    )


def _unreached(name: str, module: nn.Module, objection: Exclusion | None) -> WeightLayer:
    reason = objection if objection in UNDRAWABLE else Exclusion.UNREACHED
    return WeightLayer(name or type(module).__name__, module, None, _fan_in(module), 0, objection=reason)


def _fan_in(module: nn.Module) -> int:
    own = module._parameters.get("weight")
    return 0 if isinstance(own, nn.parameter.UninitializedParameter) else fan_in(module)


def sort_out(trace: Trace) -> tuple[dict[str, Exclusion | None], list[LeftAlone]]:
    """Return the weight layers by name with the objection to drawing their weights, and the modules left alone."""
    objections: dict[str, Exclusion | None] = {}
    left_alone: list[LeftAlone] = []
    held = [module._parameters for module in trace.names if module._parameters]
    uses = Counter([id(p) for own in held for p in own.values() if p is not None])
    hidden = "\0"  # prefix of the names inside the last module that hides its own; no name begins with NUL
    for module, name in trace.names.items():
        role = trace.roles[module]
        if role is Role.ACTIVATION or name.startswith(hidden):
            continue
        if role is Role.WEIGHTS:
            objections[name] = _objection(module, name, uses)
            hidden = f"{name}." if name else ""  # a parametrisation is inside its layer
            continue
        reason, own = _excluded(module, role)
        if reason is not None:
            left_alone.append(LeftAlone(name or "(the model)", type(module).__name__, reason, own))
        if reason in _HIDING:
            hidden = f"{name}." if name else ""
    return objections, left_alone


def _excluded(module: nn.Module, role: Role) -> tuple[Exclusion | None, tuple[str, ...]]:
    """Return why a module without weights of the walk is left alone, if it has parameters of interest, and which."""
    if role is Role.UNKNOWN and any(p is not None for p in module._parameters.values()):
        return Exclusion.UNKNOWN, tuple(module._parameters)
    return _EXCLUDED_ROLES.get(role), ()


def _objection(module: nn.Module, name: str, uses: Mapping[int, int]) -> Exclusion | None:
    """Return why the weights of a layer must not be drawn, if there is a reason."""
    weight = module._parameters.get("weight")
    if "parametrizations" in module._modules or weight is None:
        return Exclusion.PARAMETRISED
    if isinstance(weight, nn.parameter.UninitializedParameter):
        return Exclusion.LAZY
    if weight.is_meta:
        return Exclusion.META
    if weight.is_complex():
        return Exclusion.COMPLEX
    if computes_its_weights(module):
        return Exclusion.SUBCLASS
    if uses[id(weight)] > 1:
        return Exclusion.SHARED
    if not weight.requires_grad:
        return Exclusion.FROZEN
    return Exclusion.ADAPTER if _ADAPTERS.search(name) else None

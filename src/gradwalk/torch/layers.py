"""Which modules of a network carry weights on the way from its input, and what each of them reads."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import nn

from gradwalk import activations
from gradwalk.activations import Activation
from gradwalk.torch.modules import fan_in
from gradwalk.torch.path import GIVEN, UNTRACED, Path, Reading, Signal
from gradwalk.torch.trace import follow

_WHY = {
    "norm": "a norm resets the scale of the signal",
    "embedding": "a lookup, not a product",
    "recurrent": "the same weights at every step of time",
    "attention": "attention mixes by a softmax, its projections are no layers of the walk",
}


class WeightLayer(NamedTuple):
    """A module with weights: the activation whose output it reads, its fan-in, its place counted from the input."""

    name: str
    module: nn.Module
    activation: Activation
    fan_in: int
    position: int
    notes: tuple[str, ...] = ()


class LeftAlone(NamedTuple):
    """A module that is not initialised, and why."""

    name: str
    kind: str
    why: str


@dataclass(frozen=True)
class Layers:
    """The weight layers of a network in the order they are run, and what is left alone."""

    found: list[WeightLayer]
    left: list[LeftAlone]

    @property
    def depth(self) -> int:
        """The number of weight layers on the longest path."""
        return max((layer.position for layer in self.found), default=0)


def find_layers(model: nn.Module, activation: str | Activation | None = None, example: Any = None) -> Layers:
    """Return the weight layers of a model with what each reads, and the modules that are to be left alone.

    `activation` stands in where the one a layer reads cannot be found; `example` is an input (a tensor, a tuple of
    arguments or a dict of keywords) to run the model on, once and without gradient. Without it torch.fx traces the
    model, which many cannot bear: they are told apart by an error that asks for one of the two.

    >>> net = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 2))
    >>> [(layer.name, layer.activation.name, layer.fan_in) for layer in find_layers(net).found]
    [('0', 'linear', 8), ('2', 'tanh', 4)]
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"find_layers: model must be a torch.nn.Module, got {type(model).__name__}")
    given = None if activation is None else activations.activation(activation)
    path = Path(model)
    candidates, left = _sorted_out(path.names, path.roles)
    failure = follow(path, model, example)
    if failure and given is None and candidates:
        raise ValueError(
            f"find_layers: {type(model).__name__} cannot be traced ({failure}), so what {next(iter(candidates))!r} "
            "reads is not known; pass example=, an input to run the model on, or activation="
        )
    if failure:
        path.readings = _in_order_of_registration(candidates)
    found = [_layer(name, candidates[name], seen, given) for name, seen in path.readings.items() if name in candidates]
    aside = [name for name in candidates if name not in path.readings]
    left += [LeftAlone(name, type(candidates[name]).__name__, "not on the way from the input") for name in aside]
    return Layers(found, left)


def _layer(name: str, module: nn.Module, seen: "Reading", given: Activation | None) -> WeightLayer:
    reads = seen.signal.activation or given
    if reads is None:
        raise ValueError(
            f"find_layers: what {name!r} reads is not known ({seen.signal.why}); pass activation=, which is used "
            "for every layer like that"
        )
    notes = seen.signal.notes | seen.notes | ({GIVEN} if seen.signal.activation is None else set())
    return WeightLayer(name, module, reads, fan_in(module), seen.signal.position + 1, tuple(sorted(notes)))


def _sorted_out(
    names: Mapping[nn.Module, str], roles: Mapping[nn.Module, str]
) -> tuple[dict[str, nn.Module], list[LeftAlone]]:
    """Return the weight layers to initialise by name, and the modules to leave alone with the reason."""
    candidates: dict[str, nn.Module] = {}
    left: list[LeftAlone] = []
    uses = Counter(id(p) for module in roles for p in module._parameters.values() if p is not None)
    inside = "\0"
    for module, name in names.items():
        if name.startswith(inside):
            continue
        role = roles[module]
        why = _objection(module, uses) if role == "weights" else _WHY.get(role, "")
        if role in ("attention", "recurrent", "norm"):
            inside = f"{name}." if name else ""
        if role == "weights" and not why:
            candidates[name] = module
        elif not role and module._parameters and any(p is not None for p in module._parameters.values()):
            why = f"no layer that gradwalk knows, with parameters of its own ({', '.join(module._parameters)})"
        if why:
            left.append(LeftAlone(name or "(the model)", type(module).__name__, why))
    return candidates, left


def _objection(module: nn.Module, uses: Mapping[int, int]) -> str:
    """Return why the weights of a layer must not be drawn, or ""."""
    if "parametrizations" in module._modules or "weight" not in module._parameters:
        return "parametrised: computed from other tensors"
    weight = module._parameters["weight"]
    if isinstance(weight, nn.parameter.UninitializedParameter):
        return "lazy and not yet materialised: run the model once first"
    if uses[id(weight)] > 1:
        return "its weight is shared with another module"
    return ""


def _in_order_of_registration(candidates: Mapping[str, nn.Module]) -> dict[str, Reading]:
    """Return what is left to say without a path: the first layer reads the input, the others what the user gives."""
    first = Signal(notes=frozenset({UNTRACED}))
    later = first.unknown("the model could not be traced")
    return {name: Reading(later._replace(position=n) if n else first) for n, name in enumerate(candidates)}

"""From modules and functions of torch to activations, and back: the records are in `gradwalk.activations.families`."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import nn

from gradwalk.activations import BUILT_IN, FAMILIES, Activation, Counterpart, Family, activation
from gradwalk.torch.elementwise import Elementwise
from gradwalk.torch.leak import Leak
from gradwalk.torch.steady import Steady


def counterpart(module: nn.Module) -> Activation | None:
    """Return the activation that a module computes, including its parameter, or None for a module that is none.

    Args:
        module: a module of torch, one that was registered, a `Steady` or an `Elementwise`.

    Returns:
        The activation, or None.

    >>> counterpart(nn.LeakyReLU(0.2)).name, counterpart(Steady(nn.GELU(), 100.0)).name
    ('leaky_relu(0.2)', 'gelu*100')
    >>> counterpart(Leak(nn.GELU(), 0.8)).name, counterpart(Leak(nn.ReLU(), 0.8)).name
    ('gelu@0.8', 'leaky_relu(0.8)')
    """
    if isinstance(module, Steady | Leak):
        inner = counterpart(module.activation)
        return None if inner is None else _changed(inner, module)
    if isinstance(module, Elementwise):
        return module.activation
    record = _built_in(type(module))
    if record is None:
        return _registered(module)
    family, names = record[0], _arguments(record[1])
    return _member(*record, {name: getattr(module, name, None) for name in names}) if names else family.member()


def counterpart_of_function(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Activation | None:
    """Return the activation that a torch function or tensor method computes, or None.

    Args:
        name: of the function, such as "leaky_relu".
        args: its positional arguments; the first is its input.
        kwargs: its keyword arguments.

    Returns:
        The activation, or None for a function that is none.

    >>> counterpart_of_function("leaky_relu", [torch.ones(2), 0.3], {}).name
    'leaky_relu(0.3)'
    >>> counterpart_of_function("clamp", [torch.ones(2)], {"min": 0}).name
    'relu'
    """
    for family, record in _functions().get(name, ()):
        names = _arguments(record)
        given = dict(zip(names, args[1:], strict=False)) | {key: kwargs[key] for key in names if key in kwargs}
        found = _member(family, record, (dict(record.fixed) if record.omitted else {}) | given)
        if found is not None:
            return found
    return None


def module_for(f: str | Activation) -> nn.Module:
    """Return a new module that computes an activation.

    Args:
        f: a name such as "tanh" or "leaky_relu(0.2)", or an `Activation`.

    Returns:
        Torch's own module, the one that was registered for it, or an `Elementwise`.

    Raises:
        ValueError: if no activation has that name.

    >>> module_for("leaky_relu(0.2)"), module_for("sin")
    (LeakyReLU(negative_slope=0.2), Elementwise(sin))
    """
    f = activation(f)
    if f.inner is not None:
        inner = module_for(f.inner)
        return Leak(inner, f.leak) if f.leak else Steady(inner, f.scale)
    if f.family not in FAMILIES or not (family := FAMILIES[f.family]).torch_modules:
        return Elementwise(f)
    record = family.torch_modules[0]
    if record.target is not None:
        return _built(f, record)
    build: type[nn.Module] = getattr(nn, record.name)
    return build(**{record.parameter: f.parameter}) if f.parameter != family.default else build()


def _changed(inner: Activation, module: Steady | Leak) -> Activation:
    return inner.scaled(module.scale) if isinstance(module, Steady) else inner.leaking(module.leak)


@cache
def _modules() -> dict[str, tuple[Family, Counterpart]]:
    return {record.name: (family, record) for family in BUILT_IN for record in family.torch_modules}


def _built_in(kind: type[nn.Module]) -> tuple[Family, Counterpart] | None:
    """Return the record of a class, by its name; a namesake of a class of torch.nn is not that class."""
    record = _modules().get(kind.__name__)
    return record if record is not None and getattr(nn, kind.__name__, kind) is kind else None


@cache
def _functions() -> dict[str, list[tuple[Family, Counterpart]]]:
    records: dict[str, list[tuple[Family, Counterpart]]] = {}
    for family in BUILT_IN:
        for record in family.torch_functions:
            records.setdefault(record.name, []).append((family, record))
    return records


def _arguments(record: Counterpart) -> tuple[str, ...]:
    return (record.parameter,) if record.parameter else tuple(name for name, _ in record.fixed)


def _member(family: Family, record: Counterpart, arguments: Mapping[str, Any]) -> Activation | None:
    """Return the member of a family with these arguments; None where they are not what the record asks for."""
    if not all(_is(arguments.get(name), value) for name, value in record.fixed):
        return None
    if not record.parameter:
        return family.member()
    value = arguments.get(record.parameter, record.default)
    if isinstance(value, torch.Tensor):  # one slope per channel: known where all are equal
        alike = not value.is_meta and bool((value == value.flatten()[0]).all())
        value = value.flatten()[0].item() if alike else "different slopes"
    return family.member(value) if value is None or isinstance(value, int | float) else None


def _is(argument: Any, value: float | None) -> bool:
    """Return whether an argument has this value; a tensor, whose numbers may differ, has none."""
    return isinstance(argument, int | float | None) and argument == value


def _registered(module: nn.Module) -> Activation | None:
    """Return the activation that was registered with this module's class, or with a function that builds its like."""
    for family in FAMILIES:
        for record in family.torch_modules:
            if isinstance(record.target, type):
                if type(module) is record.target:
                    return family.member()
            elif record.target is not None and _likeness(record) == (type(module), repr(module)):
                return family.member()
    return None


@cache
def _likeness(record: Counterpart) -> tuple[type[nn.Module], str]:
    module = record.target()
    return type(module), repr(module)


def _built(f: Activation, record: Counterpart) -> nn.Module:
    """Return a new module of a registered counterpart, after a check that such modules compute f."""
    module, trial = record.target(), record.target()
    if not isinstance(module, nn.Module):
        raise TypeError(f"register: torch of {f.name!r} must build a torch.nn.Module, got {type(module).__name__}")
    points = torch.linspace(-2.0, 2.0, 9, dtype=torch.float64)
    with torch.no_grad():
        values = trial.double().eval()(points.clone())  # it may work in place
    if not torch.allclose(values, torch.from_numpy(f.f(points.numpy())), rtol=1e-3, atol=1e-3):
        raise ValueError(f"register: the module given as torch of {f.name!r} computes something else: {module}")
    return module

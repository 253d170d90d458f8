"""Activations by name, by function of a framework, and those that users register."""

import importlib
import re
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from gradwalk.activations.families import BUILT_IN
from gradwalk.activations.functions import Activation, Array, Function
from gradwalk.activations.leaks import Leak
from gradwalk.activations.records import Counterpart, Family, Framework, plain
from gradwalk.registry import Registry

FAMILIES: Registry[Family] = Registry("activation", BUILT_IN)
_SPELLINGS = {plain(spelling): family.name for family in BUILT_IN for spelling in (family.name, *family.aliases)}
_RESERVED = frozenset(_SPELLINGS)
_BUILT_IN = {family.name: family for family in BUILT_IN}
_NAME = re.compile(r"([^()]+)(?:\(([^()]*)\))?")
_CHANGED = re.compile(r"(.+)([*@])([^*@]*)")  # the last change of those in a name, which apply from left to right
_LONGEST = 200  # characters of a name


def activation(name: str | Activation) -> Activation:
    """Return the activation with this name; an Activation is returned as it is.

    Args:
        name: a name as `gradwalk activations` lists it, in the spelling of any framework; with its parameter in
            parentheses, as in "leaky_relu(0.2)"; scaled, as in "gelu*100", which is `Activation.scaled(100)`; or with
            a leak, as in "gelu@0.8", which is `Activation.leaking(0.8)`.

    Returns:
        The activation, with the parameter that its family has by default where none is given.

    Raises:
        ValueError: if no activation has that name, with the nearest name.
        TypeError: if `name` is neither a text nor an `Activation`.

    >>> activation("LeakyReLU(0.2)").name, activation("gelu*100").name, activation("relu@0.8").name
    ('leaky_relu(0.2)', 'gelu*100', 'leaky_relu(0.8)')
    """
    return _named(name, None)


def is_built_in(activation: Activation) -> bool:
    """Return whether this is one of the built-in activations, whatever it is called; scaled and leaking ones are not.

    >>> is_built_in(activation("relu")), is_built_in(Activation("relu", np.sin, np.cos))
    (True, False)
    """
    family = _BUILT_IN.get(activation.family)
    return family is not None and family.member(activation.parameter) == activation


@lru_cache(maxsize=256)
def identity(activation: Activation) -> str:
    """Return what identifies an activation: its name and, unless it is built in, a digest of what it computes.

    >>> identity(activation("relu"))
    'relu'
    """
    innermost = activation
    while innermost.inner is not None:
        innermost = innermost.inner
    return activation.name if is_built_in(innermost) else f"{activation.name} {activation.values_digest()}"


def registered() -> tuple[Family, ...]:
    """Return the families that users registered."""
    return tuple(FAMILIES[name] for name in FAMILIES.registered)


def adopt(families: Iterable[Family]) -> None:
    """Register families as another process did."""
    for family in families:
        FAMILIES.register(family)
        _SPELLINGS[plain(family.name)] = family.name


def names() -> list[str]:
    """Return the names of all activations: the built-in ones, then those that users registered."""
    return list(FAMILIES.names)


def in_framework(
    activation: str | Activation | Callable[..., Any], framework: Framework, where: str = "in_framework"
) -> Activation:
    """Return the activation that a name or a function means in JAX or Keras.

    A name without its parameter has the framework's own default: "leaky_relu" is leaky_relu(0.2) in Keras. A function
    is one of the framework's, one that was passed to `register`, a `functools.partial` of either with its parameter, or
    a `Leak` of any of them.
    """
    if isinstance(activation, str | Activation) or not callable(activation):
        return _named(activation, framework)
    if isinstance(activation, Leak):
        return in_framework(activation.activation, framework, where).leaking(activation.leak)
    bound: dict[str, Any] = {}
    function = activation
    if isinstance(activation, partial) and not activation.args:
        function, bound = activation.func, activation.keywords
    for family in FAMILIES:
        for counterpart in family.counterparts(framework):
            if _target(counterpart) is function and set(bound) <= {counterpart.parameter}:
                return family.member(bound.get(counterpart.parameter, counterpart.default))
    raise TypeError(
        f"{where}: activation must be a name, a function that gradwalk knows or one passed to gradwalk.register"
        f"({framework}=), got {activation!r}"
    )


def register(
    name: str,
    f: Function,
    derivative: Function | None = None,
    *,
    kinks: tuple[float, ...] = (),
    torch: Callable[[], Any] | None = None,
    jax: Callable[..., Any] | None = None,
    keras: Callable[..., Any] | None = None,
) -> Activation:
    """Register an activation under a name, and return it.

    The derivative is compared with finite differences of `f`, so that a mistake is reported at once.

    Args:
        name: a new name, without parentheses and "*".
        f: the function, of NumPy arrays.
        derivative: its derivative; without it, complex steps through `f` compute it, for which `f` must be analytic.
        kinks: where the derivative jumps; all of them, since quadrature splits its range there.
        torch: a module class, or a function without arguments that returns a module, which `gradwalk.torch` then
            recognises in models and puts into exported networks.
        jax: a function that `gradwalk.jax.random_walk` then accepts.
        keras: a function that `gradwalk.keras.RandomWalk` then accepts.

    Returns:
        The activation. Every function that takes an activation now also takes its name.

    Raises:
        ValueError: if the name is taken, `f` cannot be evaluated on an array, or the derivative is not that of `f`.
        TypeError: if an argument has the wrong type.

    >>> register("bent", lambda a: (np.sqrt(a**2 + 1) - 1) / 2 + a).derivative(np.array([0.0]))
    array([1.])
    """
    if not isinstance(name, str):
        raise TypeError(f"register: name must be a text, got name={name!r}")
    if not plain(name) or set("()*@") & set(name) or plain(name) in _RESERVED:
        raise ValueError(f"register: name must be new and without parentheses, '*' or '@', got name={name!r}")
    for framework, counterpart in (("torch", torch), ("jax", jax), ("keras", keras)):
        if counterpart is not None and not callable(counterpart):
            raise TypeError(f"register: {framework} must be a class or a function, got {framework}={counterpart!r}")
    new = Activation(name, f, _complex_step(f) if derivative is None else derivative, kinks, family=name)
    _check_derivative(new)
    family = Family(
        name,
        lambda: new,
        torch_modules=_given(name, torch),
        jax=_given(name, jax),
        keras=_given(name, keras),
    )
    adopt([family])
    return family.member()


def _given(name: str, target: Callable[..., Any] | None) -> tuple[Counterpart, ...]:
    return () if target is None else (Counterpart(name, target=target),)


def _named(name: Any, framework: Framework | None) -> Activation:
    """Return the activation of that name, with the framework's default where the name carries no parameter."""
    if isinstance(name, Activation):
        return name
    if not isinstance(name, str):
        raise TypeError(f"activation: must be a name or a gradwalk.Activation, got {name!r}")
    if len(name) > _LONGEST:
        raise ValueError(f"activation: a name must have at most {_LONGEST} characters, got {len(name):,}")
    changed = _CHANGED.fullmatch(name)
    if changed is not None:
        return _changed(_named(changed[1], framework), changed[2], changed[3], name)
    match = _NAME.fullmatch(name.strip())
    if match is None:
        raise ValueError(f'activation: must be a name or name(parameter) such as "leaky_relu(0.2)", got {name!r}')
    family = FAMILIES.find(_SPELLINGS.get(plain(match[1]), match[1].strip()), "activation")
    if match[2]:
        text = match[2].rpartition("=")[2]  # torch prints LeakyReLU(negative_slope=0.2)
        return family.member(_number(text, f"activation: the parameter of {family.name} must be a number"))
    counterparts = family.counterparts(framework) if framework else ()
    return family.member(counterparts[0].default if counterparts else None)


def _changed(inner: Activation, sign: str, text: str, name: str) -> Activation:
    """Return an activation scaled, as in "gelu*100", or with a leak, as in "gelu@0.8"."""
    what, change = ("scale", inner.scaled) if sign == "*" else ("leak", inner.leaking)
    return change(_number(text, f"activation: the {what} in {name!r} must be a number"))


def _number(text: str, message: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{message}, got {text!r}") from None


def _target(counterpart: Counterpart) -> Any:
    """Return the function that a counterpart names, None where this version of the framework has none such."""
    if counterpart.target is not None:
        return counterpart.target
    module, _, name = counterpart.name.rpartition(".")
    return getattr(importlib.import_module(module), name, None)


def _complex_step(f: Function) -> Function:
    step = 1e-20

    def derivative(a: Array) -> Array:
        return np.asarray(f(a + 1j * step)).imag / step

    return derivative


def _check_derivative(new: Activation) -> None:
    points = np.array([a for a in np.linspace(-3.03, 3.07, 41) if all(abs(a - k) > 1e-3 for k in new.kinks)])
    if not len(points):
        raise ValueError(f"register: the kinks of {new.name!r} must leave room between them, got {len(new.kinks)}")
    step = 1e-5
    try:
        measured = (np.asarray(new.f(points + step)) - np.asarray(new.f(points - step))) / (2 * step)
        claimed = np.asarray(new.derivative(points))
    except Exception as error:
        raise ValueError(f"register: {new.name!r} cannot be evaluated on an array: {error}") from error
    if measured.shape != points.shape or claimed.shape != points.shape:
        raise ValueError(f"register: f and derivative of {new.name!r} must return an array of the shape they are given")
    wrong = ~(np.abs(measured - claimed) <= 1e-5 * (1 + np.abs(measured)))  # NaN counts as wrong
    if wrong.any():
        raise ValueError(
            f"register: the derivative of {new.name!r} at a={points[wrong][0]:g} is {claimed[wrong][0]:g}, but f "
            f"changes at a rate of {measured[wrong][0]:g}; pass derivative= and list the kinks"
        )

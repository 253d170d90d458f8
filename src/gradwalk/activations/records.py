"""The record of a family of activations, and those of its counterparts in the frameworks."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from gradwalk.activations.functions import Activation, written

Framework = Literal["jax", "keras"]


@dataclass(frozen=True, eq=False)
class Counterpart:
    """A module class or a function of a framework that computes the activations of a family.

    name: of a class in torch.nn or in another library, of a torch function or method, or the dotted path of a function
    of JAX or Keras. parameter: the argument or attribute that holds the family's parameter, if it has one. default:
    the parameter's default value there, where it differs from the family's. fixed: further arguments with the values
    that they must have, None where there must be none. omitted: whether they have these values if they are left out.
    target: the class, factory or function itself, for those that users register.
    """

    name: str
    parameter: str = ""
    default: float | None = None
    fixed: tuple[tuple[str, float | None], ...] = ()
    omitted: bool = True
    target: Any = None


@dataclass(frozen=True, eq=False)
class Family:
    """Activations that differ in a parameter, or a single one that takes none.

    build: returns the Activation, given the parameter if there is one. default: the parameter's default, None for a
    family without. positive: whether the parameter must be positive. aliases: other names; case, spaces, "_" and "-"
    never count. torch_modules: the first one is what `gradwalk.torch.module_for` builds.
    """

    name: str
    build: Callable[..., Activation]
    default: float | None = None
    positive: bool = True
    aliases: tuple[str, ...] = ()
    torch_modules: tuple[Counterpart, ...] = ()
    torch_functions: tuple[Counterpart, ...] = ()
    jax: tuple[Counterpart, ...] = ()
    keras: tuple[Counterpart, ...] = ()

    def member(self, parameter: float | None = None) -> Activation:
        """Return the activation with this parameter, the default one if None; always the same object."""
        value = self.default if parameter is None else float(parameter)
        if value is not None and self.default is None:
            raise ValueError(f"activation: {self.name} takes no parameter, got {self.name}({written(value)})")
        if value is not None and (not math.isfinite(value) or (self.positive and value <= 0)):
            sign = "positive and finite" if self.positive else "finite"
            raise ValueError(f"activation: the parameter of {self.name} must be {sign}, got {value!r}")
        return _member(self, value)

    def counterparts(self, framework: Framework) -> tuple[Counterpart, ...]:
        """Return the functions of a framework that compute this family."""
        return self.jax if framework == "jax" else self.keras


@lru_cache(maxsize=512)  # one object per member, because results are cached per object
def _member(family: Family, parameter: float | None) -> Activation:
    built = family.build() if parameter is None else family.build(parameter)
    return replace(built, family=family.name, parameter=parameter)


def plain(name: str) -> str:
    """Return a name without what does not count in it: case, spaces, "_" and "-"."""
    return re.sub(r"[\s_-]", "", name).lower()

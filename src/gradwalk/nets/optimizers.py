"""Optimizers: what turns the gradients of a stack into updates of its parameters.

An optimizer is a small class with a `name`. Its numbers are dataclass fields with defaults, its state is named by
`slots`, and its one method updates one tensor of parameters in place. `gradwalk.nets.Updater` binds it to a stack,
clips the gradients and applies weight decay. A new one is registered from anywhere:

>>> import torch
>>> @OPTIMIZERS.register
... @dataclass(frozen=True)
... class SignDescent(Optimizer):
...     name = "sign"
...     shrink: float = 1.0
...
...     def update(self, parameter, step):
...         torch.sign(parameter.gradient, out=parameter.scratch)
...         parameter.value.sub_(parameter.scratch.mul_(parameter.rate * self.shrink))
>>> parse_optimizer("sign(0.5)")
SignDescent(shrink=0.5)

A network must come out bit for bit the same alone, in any stack and on any number of threads. Where an element lies in
memory, and on which thread, decides whether torch computes it in vector registers or one by one, and operations such
as `addcmul_` or `lerp_` may round once in the one case and twice in the other. So the optimizers here consist of
operations that round once per element: `mul_`, `add_`, `sub_`, `div_` and `sqrt`. The exception is SGD, whose single
pass over memory counts; the tests hold it to the same bits.
"""

from __future__ import annotations

import dataclasses
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from gradwalk.checks import shown
from gradwalk.registry import Registry

if TYPE_CHECKING:
    import torch

    from gradwalk.nets.parameter import Parameter


class Optimizer(ABC):
    """Turns the gradient of a parameter into its update; a subclass is a frozen dataclass whose fields are numbers.

    name: what runs call it. slots: the names of its state tensors, one of each per parameter. decoupled: weight decay
    shrinks the parameters by the factor 1 - rate * decay, instead of adding decay * value to the gradient. linear: the
    update is -rate * gradient and nothing else, so that clipping can scale the rates instead of the gradients.
    """

    name: ClassVar[str]
    slots: ClassVar[tuple[str, ...]] = ()
    decoupled: ClassVar[bool] = False
    linear: ClassVar[bool] = False

    @abstractmethod
    def update(self, parameter: Parameter, step: int) -> None:
        """Update `parameter.value` and `parameter.slots` in place; `step` counts from 1."""

    def __str__(self) -> str:
        """Return the text that `parse_optimizer` reads: the name, and the numbers that are not the defaults."""
        values = {field.name: getattr(self, field.name) for field in _numbers(type(self))}
        changed = [f"{field.name}={values[field.name]!r}" for field in _numbers(type(self)) if _is_changed(self, field)]
        if not changed:
            return self.name
        return f"{self.name}({changed[0].partition('=')[2] if len(values) == 1 else ', '.join(changed)})"


@dataclass(frozen=True)
class SGD(Optimizer):
    """Plain gradient descent: value <- value - rate * gradient."""

    name = "sgd"
    linear = True

    def update(self, parameter: Parameter, step: int) -> None:
        """Take the step in one pass over memory."""
        parameter.value.addcmul_(parameter.gradient, parameter.rate, value=-1)


@dataclass(frozen=True)
class Momentum(Optimizer):
    """Gradient descent with momentum, as `torch.optim.SGD(momentum=...)`.

    velocity <- momentum * velocity + gradient; value <- value - rate * velocity.
    """

    name = "momentum"
    slots = ("velocity",)
    momentum: float = 0.9

    def __post_init__(self) -> None:
        _check_share(self, "momentum")

    def update(self, parameter: Parameter, step: int) -> None:
        """Move along the velocity."""
        parameter.value.sub_(parameter.product(self._velocity(parameter), parameter.rate))

    def _velocity(self, parameter: Parameter) -> torch.Tensor:
        """Add the gradient to the velocity, and return it."""
        (velocity,) = parameter.slots
        return velocity.mul_(self.momentum).add_(parameter.gradient)


@dataclass(frozen=True)
class Nesterov(Momentum):
    """Nesterov's momentum, as `torch.optim.SGD(momentum=..., nesterov=True)`.

    velocity <- momentum * velocity + gradient; value <- value - rate * (gradient + momentum * velocity).
    """

    name = "nesterov"

    def update(self, parameter: Parameter, step: int) -> None:
        """Move along the velocity of the next step."""
        ahead = parameter.product(self._velocity(parameter), self.momentum).add_(parameter.gradient)
        parameter.value.sub_(ahead.mul_(parameter.rate))


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam (Kingma and Ba 2015), as `torch.optim.Adam`; weight decay is an L2 term.

    mean <- beta1 * mean + (1 - beta1) * gradient; square <- beta2 * square + (1 - beta2) * gradient^2;
    value <- value - rate * m / (sqrt(s) + epsilon), where m = mean / (1 - beta1^t) and s = square / (1 - beta2^t).
    """

    name = "adam"
    slots = ("mean", "square")
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        _check_share(self, "beta1")
        _check_share(self, "beta2")
        if not 0 < self.epsilon < math.inf:
            raise ValueError(f"{self.name}: epsilon must be positive and finite, got epsilon={self.epsilon!r}")

    def update(self, parameter: Parameter, step: int) -> None:
        """Update both moments and move by their ratio."""
        mean, square = parameter.slots
        gradient = parameter.gradient
        mean.mul_(self.beta1).add_(parameter.product(gradient, 1 - self.beta1))
        square.mul_(self.beta2).add_(parameter.product(gradient, gradient).mul_(1 - self.beta2))
        root = parameter.root(square).div_(math.sqrt(1 - self.beta2**step)).add_(self.epsilon)
        ratio = parameter.ratio(mean, root)
        parameter.value.sub_(ratio.mul_(parameter.rate / (1 - self.beta1**step)))


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019), as `torch.optim.AdamW`."""

    name = "adamw"
    decoupled = True


_LONGEST = 1000  # characters of the text that names an optimizer
OPTIMIZERS: Registry[type[Optimizer]] = Registry("optimizer", [SGD, Momentum, Nesterov, Adam, AdamW])


def parse_optimizer(text: str, where: str = "optimizer") -> Optimizer:
    """Return the optimizer that a text names, with its numbers in parentheses; `str` of it is the canonical text.

    >>> parse_optimizer("adam(beta2=0.99)")
    Adam(beta1=0.9, beta2=0.99, epsilon=1e-08)
    >>> str(parse_optimizer("momentum(momentum = 0.95)")), str(parse_optimizer("adam(0.9, 0.999)"))
    ('momentum(0.95)', 'adam')
    """
    if not isinstance(text, str):
        raise TypeError(f"{where}: optimizer must be a name or name(parameters), got {shown(text)}")
    match = re.fullmatch(r"([^()]+)(?:\((.*)\))?", text.strip()) if len(text) < _LONGEST else None
    if match is None:
        raise ValueError(
            f'{where}: write a name or name(parameters) such as "adam(beta2=0.99)", got optimizer={text[:200]!r}'
        )
    return _built(OPTIMIZERS.find(match[1].strip(), where), match[2] or "", where)


@lru_cache(maxsize=64)
def _built(kind: type[Optimizer], arguments: str, where: str) -> Optimizer:
    names = [field.name for field in _numbers(kind)]
    values: dict[str, float] = {}
    for place, argument in enumerate(filter(str.strip, arguments.split(","))):
        key, equals, number = argument.rpartition("=")
        name = key.strip() if equals else names[place] if place < len(names) else argument.strip()
        if name not in names or name in values:
            raise ValueError(f"{where}: {kind.name} {_parameters(names)}, got {kind.name}({arguments})")
        values[name] = _number(where, kind, name, number)
    return _instance(where, kind, values)


def _instance(where: str, kind: type[Optimizer], values: Mapping[str, float]) -> Optimizer:
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _number(where: str, kind: type[Optimizer], name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{where}: {name} of {kind.name} must be a number, got {name}={text.strip()!r}") from None


def _parameters(names: list[str]) -> str:
    return f"has the parameters {', '.join(names)}, each given once" if names else "has no parameters"


@lru_cache(maxsize=64)
def _numbers(kind: type[Optimizer]) -> tuple[dataclasses.Field[float], ...]:
    return dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()


def _is_changed(optimizer: Optimizer, field: dataclasses.Field[float]) -> bool:
    return bool(getattr(optimizer, field.name) != field.default)


def _check_share(optimizer: Optimizer, name: str) -> None:
    value = getattr(optimizer, name)
    if not 0 <= value < 1:
        raise ValueError(f"{optimizer.name}: {name} must be at least 0 and below 1, got {name}={value!r}")

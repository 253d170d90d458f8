"""A case of the experiment: a model written by others with a task to train it on; and the register of all cases."""

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn


class Batch(NamedTuple):
    """The positional arguments of a model, and what its output is compared with."""

    inputs: tuple[Any, ...]
    target: Any


class Task(Protocol):
    """Batches to train on and a loss; a frozen dataclass, so that its repr holds its settings."""

    def draw(self, generator: torch.Generator) -> Batch:
        """Return a new batch."""

    def loss(self, output: Any, target: Any) -> Tensor:
        """Return the mean loss over a batch."""


@dataclass(frozen=True)
class Case:
    """A model to build with the global seed set, and its task; source: of both."""

    name: str
    kind: str
    package: str
    task: Task
    build: Callable[[], nn.Module]
    source: str

    @property
    def release(self) -> str:
        """The package with its version."""
        return f"{self.package} {version(self.package)}"

    @property
    def collection(self) -> str:
        """The module of `zoo` that it is in."""
        return self.build.__module__.rpartition(".")[2]

    @property
    def digest(self) -> str:
        """A digest of all that a result from the model's own initialization depends on."""
        return hashlib.sha256("\n".join([self.source, self.release, torch.__version__]).encode()).hexdigest()[:12]


CASES: dict[str, Case] = {}


def case(kind: str, package: str, task: Task) -> Callable[[Callable[[], nn.Module]], Callable[[], nn.Module]]:
    """Register the decorated function, which builds a model of this kind from this package, as a case."""

    def register(build: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
        name = build.__name__.replace("_", "-")
        assert name not in CASES, f"two cases are named {name}"
        source = "\n".join([inspect.getsource(build), inspect.getsource(type(task)), repr(task)])
        CASES[name] = Case(name, kind, package, task, build, source)
        return build

    return register

"""What users pass to choose layers and to name what they read: names, patterns, types and mappings of them."""

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TypeAlias

from torch import nn

from gradwalk import activations
from gradwalk.activations import Activation

Given: TypeAlias = str | Activation | Mapping[str, str | Activation] | None
Choice: TypeAlias = str | type[nn.Module] | Iterable[str | type[nn.Module]] | None


def given_for(activation: Given, where: str) -> Callable[[str], Activation | None]:
    """Return the function from the name of a layer to the activation that the user gives for it.

    >>> given_for({"decoder.*": "relu"}, "init_")("decoder.0").name
    'relu'
    """
    if not isinstance(activation, Mapping):
        one = None if activation is None else activations.activation(activation)
        return lambda name: one
    table = {pattern: activations.activation(value) for pattern, value in activation.items()}
    if not all(isinstance(pattern, str) for pattern in table):
        raise TypeError(f"{where}: the keys of activation= must be names or patterns of layers, got {list(table)}")
    return lambda name: next((value for pattern, value in table.items() if fnmatchcase(name, pattern)), None)


class Selection:
    """The layers that a user chooses by `only=` and `skip=`.

    A layer that `only` names, by its name or a pattern, is drawn even if it would be left alone otherwise; one that it
    chooses by its type is not.
    """

    def __init__(self, only: Choice, skip: Choice, where: str) -> None:
        self.only = None if only is None else _entries(only, "only", where)
        self.skip = [] if skip is None else _entries(skip, "skip", where)
        self.where = where

    def check(self, layers: Mapping[str, nn.Module]) -> None:
        """Raise a ValueError for an entry that chooses no layer."""
        for argument, entries in (("only", self.only or []), ("skip", self.skip)):
            for entry in entries:
                if not any(_chooses(entry, name, module) for name, module in layers.items()):
                    known = ", ".join(list(layers)[:6]) + (", ..." if len(layers) > 6 else "")
                    raise ValueError(f"{self.where}: {argument}={entry!r} matches no weight layer; there are {known}")

    def names(self, name: str) -> bool:
        """Return whether `only` names a layer."""
        return self.only is not None and any(isinstance(each, str) and fnmatchcase(name, each) for each in self.only)

    def reason_against(self, name: str, module: nn.Module) -> str:
        """Return why a layer is not among those chosen, "" if it is."""
        if self.skip and any(_chooses(entry, name, module) for entry in self.skip):
            return "skip= has it"
        chosen = self.only is None or any(_chooses(entry, name, module) for entry in self.only)
        return "" if chosen else "only= does not have it"


def _entries(choice: Choice, argument: str, where: str) -> list[str | type[nn.Module]]:
    entries = [choice] if isinstance(choice, str | type) else list(choice or [])
    for entry in entries:
        if not isinstance(entry, str) and not (isinstance(entry, type) and issubclass(entry, nn.Module)):
            raise TypeError(f"{where}: {argument} must be names, patterns or types of layers, got {entry!r}")
    return entries


def _chooses(entry: str | type[nn.Module], name: str, module: nn.Module) -> bool:
    return fnmatchcase(name, entry) if isinstance(entry, str) else isinstance(module, entry)

"""What users pass to choose layers and to name what they read: names, patterns, types and mappings of them."""

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

from gradwalk.activations import Activation

Activated: TypeAlias = str | Activation | Callable[..., Any]
Given: TypeAlias = Activated | Mapping[str, Activated] | None
Choice: TypeAlias = str | type | Iterable[str | type] | None


class GivenActivations:
    """The activations that a user gives for layers that read what cannot be determined."""

    def __init__(self, given: Given, lookup: Callable[[Activated], Activation], where: str) -> None:
        self.by_name = isinstance(given, Mapping)
        table = given if isinstance(given, Mapping) else {} if given is None else {"*": given}
        if not all(isinstance(pattern, str) for pattern in table):
            raise TypeError(f"{where}: the keys of activation= must be names or patterns of layers, got {list(table)}")
        self.table = {pattern: _looked_up(value, lookup, where) for pattern, value in table.items()}

    def of(self, name: str) -> Activation | None:
        """Return the activation given for a layer, None if there is none."""
        return next((value for pattern, value in self.table.items() if fnmatchcase(name, pattern)), None)


def _looked_up(given: Activated, lookup: Callable[[Activated], Activation], where: str) -> Activation:
    """Return the activation that a user means; errors begin with `where`, the function that was called."""
    try:
        return lookup(given)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{where}: {str(error).removeprefix('activation: ').removeprefix(f'{where}: ')}") from None


class Selection:
    """The layers that a user chooses by `only=` and `skip=`.

    A layer that `only` names, by its name or a pattern, is drawn even if it would be left alone otherwise; one that it
    chooses by its type is not.
    """

    def __init__(self, only: Choice, skip: Choice, where: str) -> None:
        self.only = None if only is None else _entries(only, "only", where)
        self.skip = [] if skip is None else _entries(skip, "skip", where)
        self.where = where

    def check(self, layers: Mapping[str, type]) -> None:
        """Raise a ValueError for an entry that chooses none of these layers, given with their types."""
        for argument, entries in (("only", self.only or []), ("skip", self.skip)):
            for entry in entries:
                if not any(_chooses(entry, name, kind) for name, kind in layers.items()):
                    known = ", ".join(list(layers)[:6]) + (", ..." if len(layers) > 6 else "")
                    raise ValueError(f"{self.where}: {argument}={entry!r} matches no weight layer; there are {known}")

    def names(self, name: str) -> bool:
        """Return whether `only` names a layer."""
        return any(isinstance(entry, str) and fnmatchcase(name, entry) for entry in self.only or [])

    def reason_against(self, name: str, kind: type) -> str:
        """Return why a layer is not among those chosen, "" if it is."""
        if any(_chooses(entry, name, kind) for entry in self.skip):
            return "skip= has it"
        chosen = self.only is None or any(_chooses(entry, name, kind) for entry in self.only)
        return "" if chosen else "only= does not have it"


def _entries(choice: Choice, argument: str, where: str) -> list[str | type]:
    entries = [choice] if isinstance(choice, str | type) else list(choice or [])
    for entry in entries:
        if not isinstance(entry, str | type):
            raise TypeError(f"{where}: {argument} must be names, patterns or types of layers, got {entry!r}")
    return entries


def _chooses(entry: str | type, name: str, kind: type) -> bool:
    return fnmatchcase(name, entry) if isinstance(entry, str) else issubclass(kind, entry)

"""Registries: what users may add to gradwalk, one registry per kind of thing, each item found by its name.

An item is a record or a small class with a `name`; `REGISTRY.register(item)` adds one from anywhere. An installed
package can contribute too: an entry point of the group `gradwalk` names a module that registers items when imported.
"""

import difflib
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Generic, Protocol, TypeVar

from gradwalk.checks import shown

_LONGEST = 50  # characters of a name that is compared with others


class Named(Protocol):
    """Anything with a name."""

    @property
    def name(self) -> str: ...


Item = TypeVar("Item", bound=Named)


class Registry(Generic[Item]):
    """The items of one kind, by name: the built-in ones first, then those that users registered.

    A built-in name is never overwritten; registering a user's own name again replaces the item, as a notebook cell that
    is run twice expects.

    >>> from types import SimpleNamespace
    >>> colours = Registry("colour", [SimpleNamespace(name="red")])
    >>> colours.register(SimpleNamespace(name="teal")).name, colours.names
    ('teal', ('red', 'teal'))
    >>> colours["tael"]
    Traceback (most recent call last):
    ValueError: there is no colour 'tael'; did you mean 'teal'?
    """

    def __init__(self, kind: str, built_in: Iterable[Item] = ()) -> None:
        self.kind = kind
        self._built_in = {item.name: item for item in built_in}
        self._registered: dict[str, Item] = {}

    def register(self, item: Item) -> Item:
        """Add an item under its name, and return it."""
        name = getattr(item, "name", None)
        if not isinstance(name, str) or not name.strip() or not name.isprintable():
            raise ValueError(f"register: a {self.kind} needs a name that is a line of text, got name={name!r}")
        if name in self._built_in:
            raise ValueError(f"register: {name!r} is a built-in {self.kind}; choose another name")
        self._registered[name] = item
        return item

    def remove(self, name: str) -> None:
        """Remove an item that was registered by a user; the built-in ones stay."""
        if name not in self._registered:
            raise ValueError(f"remove: no {self.kind} {name!r} was registered")
        del self._registered[name]

    def find(self, name: str, where: str = "") -> Item:
        """Return the item of that name, or raise a ValueError that begins with `where` and suggests a similar name."""
        if not isinstance(name, str):
            raise TypeError(f"{where or 'find'}: a {self.kind} is given by its name, got {shown(name)}")
        if name not in self:
            _load_plugins()
        if name not in self:
            raise ValueError(f"{where}: {self._unknown(name)}" if where else self._unknown(name))
        return self._built_in[name] if name in self._built_in else self._registered[name]

    @property
    def registered(self) -> tuple[str, ...]:
        """The names of the items that users registered."""
        return tuple(self._registered)

    @property
    def names(self) -> tuple[str, ...]:
        """All names, in the order of registration."""
        _load_plugins()
        return tuple(self._items)

    def __getitem__(self, name: str) -> Item:
        return self.find(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._built_in or name in self._registered)

    def __iter__(self) -> Iterator[Item]:
        _load_plugins()
        return iter(tuple(self._items.values()))

    @property
    def _items(self) -> dict[str, Item]:
        return self._built_in | self._registered

    def _unknown(self, name: object) -> str:
        close = difflib.get_close_matches(str(name)[:_LONGEST].lower(), self.names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(self.names)}"
        return f"there is no {self.kind} {shown(name)}; {hint}"


@cache
def _load_plugins() -> None:
    """Import the modules that installed packages name as entry points of the group `gradwalk`, once."""
    from importlib.metadata import entry_points  # a tenth of the time of `import gradwalk`

    for entry_point in entry_points(group="gradwalk"):
        entry_point.load()

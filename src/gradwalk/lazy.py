"""Names of a package that are imported when they are first used, so that reading results does not import torch."""

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

_INSTALLS = {"torch": "PyTorch: pip install 'gradwalk[torch]'"}


def lazily(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package (PEP 562), which imports each name from its module when it is first used.

    modules: the names in each module of the package. A name must not be that of a module, which importing the module
    would replace.

    >>> get = lazily("json", {"decoder": ["JSONDecodeError"]})
    >>> get("JSONDecodeError").__name__
    'JSONDecodeError'
    >>> get("loads_")
    Traceback (most recent call last):
    AttributeError: module 'json' has no attribute 'loads_'
    """
    homes = {name: f"{package}.{module}" for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(homes[name]), name)
        except ModuleNotFoundError as error:
            if error.name not in _INSTALLS:
                raise
            raise ModuleNotFoundError(f"{package} needs {_INSTALLS[error.name]}", name=error.name) from error
        setattr(sys.modules[package], name, value)
        return value

    return get

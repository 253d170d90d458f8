"""What users registered in this process and runs may name, to be known in other processes too."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gradwalk import activations
from gradwalk.nets import INITIALISERS, OPTIMIZERS


@dataclass(frozen=True)
class Extensions:
    """Registered activations, initialisers and optimizers. Data sets are sent as they are, and need no name there."""

    families: tuple[activations.Family, ...]
    initialisers: tuple[Any, ...]
    optimizers: tuple[Any, ...]

    @classmethod
    def here(cls) -> Extensions:
        """Return those of this process."""
        items = ([registry[name] for name in registry.registered] for registry in (INITIALISERS, OPTIMIZERS))
        return cls(activations.registered(), *(tuple(each) for each in items))

    def install(self) -> None:
        """Register them in this process."""
        activations.adopt(self.families)
        for initialiser in self.initialisers:
            INITIALISERS.register(initialiser)
        for optimizer in self.optimizers:
            OPTIMIZERS.register(optimizer)


def sent(put: Callable[[Extensions], Any]) -> Any:
    """Return what `put` makes of this process's extensions; raise a ValueError if they cannot be sent."""
    try:
        return put(Extensions.here())
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(
            f"sweep: what was registered (activations, initialisers, optimizers) cannot be sent to other processes "
            f"({reason}); define it at the top of a module"
        ) from None

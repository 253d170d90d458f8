"""Watchers: they receive the events of a training as it goes."""

import warnings
from collections.abc import Callable

from gradwalk.train.run import Run
from gradwalk.train.state import Epoch, Outcome


class DamageWarning(UserWarning):
    """Something that was saved is damaged; it was set aside, and what it held is computed again."""


class Watcher:
    """Receives the events of a training, in the thread that called `train`; override what is of interest."""

    def restarted(self, run: Run, reason: str) -> None:
        """The checkpoint of a run cannot be used, and the run starts anew. By default, warn with `DamageWarning`."""
        warnings.warn(reason, DamageWarning, stacklevel=2)

    def stepped(self, networks: int) -> None:
        """That many networks took another step."""

    def epoch_ended(self, run: Run, epoch: Epoch) -> None:
        """A run finished an epoch."""

    def ended(self, outcome: Outcome) -> None:
        """A run finished or diverged."""


Event = Callable[[Watcher], None]  # calls one method of the watcher that it is given

"""What runs on the nodes of a cluster: the training of a stack, and the news of it for the driver."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path
from typing import Any

from ray.util.queue import Queue

from gradwalk.data import Dataset
from gradwalk.sweep.engine import ending
from gradwalk.sweep.writer import Ending, Entry
from gradwalk.train import Epoch, Outcome, Run, Watcher, train

_EVERY = 0.3  # seconds between two letters to the driver, and two looks at the sign

GO, STOP = "go", "stop"
News = tuple[Any, ...]  # a ticket, a method of the driver's Listener, and its arguments


def train_stack(
    entries: tuple[Entry, ...], data: Dataset, letters: Queue, ticket: int, threads: int, sign: Path, save_every: float
) -> list[Ending]:
    """Train runs of one stack on this node, and return how those ended that did.

    The checkpoints go where the sign lies, a file of the driver's that says whether to go on.
    """
    if not sign.exists():
        raise OSError(
            f"sweep: {sign.parent} is not the driver's folder on {socket.gethostname()}; choose one that all nodes see"
        )
    identities = {entry.run: entry.identity for entry in entries}
    told = _Telling(identities, letters, ticket, sign)
    with contextlib.suppress(_StoppedError):
        told.tell("began")
        train(list(identities), data, threads=threads, folder=sign.parent, save_every=save_every, watcher=told)
    return told.endings


class _StoppedError(Exception):
    """The driver wants no more; what has begun has been saved."""


class _Telling(Watcher):
    """Sends the driver what `train` tells, a letter every now and then; how a run ended, at once."""

    def __init__(self, identities: dict[Run, str], letters: Queue, ticket: int, sign: Path) -> None:
        self._identities, self._letters, self._ticket, self._sign = identities, letters, ticket, sign
        self._news: list[News] = []
        self._networks, self._sent, self._stopped = 0, time.monotonic(), False
        self.endings: list[Ending] = []

    def stepped(self, networks: int) -> None:
        """Count the steps until the next letter."""
        self._networks += networks
        if time.monotonic() - self._sent > _EVERY:
            self._send()

    def epoch_ended(self, run: Run, epoch: Epoch) -> None:
        """Write it into the next letter."""
        self._news.append((self._ticket, "measured", self._identities[run], epoch))

    def ended(self, outcome: Outcome) -> None:
        """Send it."""
        self.endings.append(ending(self._identities[outcome.run], outcome))
        self.tell("ended", self.endings[-1:])

    def tell(self, method: str, *arguments: Any) -> None:
        """Send the driver a method of its Listener to call, after what was written before."""
        self._news.append((self._ticket, method, *arguments))
        self._send()

    def _send(self) -> None:
        """Send a letter, and stop where the sign says so; it is opened anew, which a shared folder takes as a wish."""
        if self._networks:
            self._news.append((self._ticket, "stepped", self._networks))
        # put() would wait for an answer, and Ray lend the core to another task meanwhile
        self._letters.actor.put_nowait.remote(self._news)  # type: ignore[attr-defined]
        self._news, self._networks, self._sent = [], 0, time.monotonic()
        if not self._stopped and self._sign.read_text() == STOP:
            self._stopped = True  # once: `train` tells the rest while it stops
            raise _StoppedError

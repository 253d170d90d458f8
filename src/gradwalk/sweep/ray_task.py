"""What runs on the nodes of a Ray cluster: the training of one stack, whose events are sent to the driver."""

from __future__ import annotations

import contextlib
import pickle
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray.util.queue import Queue

from gradwalk.data import Dataset
from gradwalk.sweep.engine import EngineOptions, finish
from gradwalk.sweep.entry import Ending, Entry
from gradwalk.sweep.extensions import Extensions
from gradwalk.train import Epoch, Outcome, Run, Watcher, train

_EVERY = 0.3  # seconds between two messages to the driver, and two looks at the sign

GO, STOP = "go", "stop"


@dataclass(frozen=True)
class Began:
    """Training of the task's job begins."""


@dataclass(frozen=True)
class Restarted:
    """The checkpoint of a run cannot be used, and the run starts anew."""

    identity: str
    reason: str


@dataclass(frozen=True)
class Stepped:
    """Networks took steps, that many in total since the last message."""

    networks: int


@dataclass(frozen=True)
class EpochEnded:
    """A run finished an epoch."""

    identity: str
    epoch: Epoch


@dataclass(frozen=True)
class RunEnded:
    """A run is done or diverged."""

    ending: Ending


Event = Began | Restarted | Stepped | EpochEnded | RunEnded


@dataclass(frozen=True)
class Message:
    """Events of one task, in order. ticket: by which the driver knows the task's job."""

    ticket: int
    events: list[Event] = field(default_factory=list)

    def packed(self) -> bytes:
        """Return the message as bytes: to unpack it, the process of the queue would have to load torch."""
        return pickle.dumps(self)

    @classmethod
    def unpacked(cls, packed: bytes) -> Message:
        """Return the message that was packed."""
        message = pickle.loads(packed)
        assert isinstance(message, cls)
        return message


def train_stack(
    entries: tuple[Entry, ...],
    data: Dataset,
    extensions: Extensions,
    messages: Queue,
    ticket: int,
    options: EngineOptions,
    sign: Path,
) -> list[Ending]:
    """Train the runs of one stack on this node, and return the endings of those that ended.

    extensions: what is registered in the driver. sign: a file of the driver's in the folder of checkpoints, whose
    content is GO or STOP.
    """
    extensions.install()
    if not sign.exists():
        raise OSError(
            f"sweep: {sign.parent} is not the driver's folder on {socket.gethostname()}; choose one that all nodes see"
        )
    watcher = _TaskWatcher({entry.run: entry.identity for entry in entries}, data, messages, ticket, options, sign)
    with watcher.delivered(), contextlib.suppress(_StoppedError):
        watcher.began()
        train(
            [entry.run for entry in entries],
            data,
            device=options.device,
            threads=options.threads,
            folder=options.checkpoints,
            save_every=options.save_every,
            watcher=watcher,
        )
    return watcher.endings


class _StoppedError(Exception):
    """The driver asked the task to stop; `train` has saved checkpoints."""


class _TaskWatcher(Watcher):
    """Sends the events of `train` to the driver: endings at once, all others in a message every now and then."""

    def __init__(
        self,
        identities: dict[Run, str],
        data: Dataset,
        messages: Queue,
        ticket: int,
        options: EngineOptions,
        sign: Path,
    ) -> None:
        self._identities, self._data, self._options, self._sign = identities, data, options, sign
        self._messages, self._message = messages, Message(ticket)
        self._networks, self._sent, self._stopped = 0, time.monotonic(), False
        self._receipt: Any = None  # of the last message
        self.endings: list[Ending] = []

    @contextlib.contextmanager
    def delivered(self) -> Iterator[None]:
        """Wait at the end until all messages have arrived, so that the driver sees them before the task's result."""
        try:
            yield
        finally:
            if self._receipt is not None:
                ray.get(self._receipt)  # the queue takes a task's messages in order

    def began(self) -> None:
        """Send the event, unless the task was told to stop before it began."""
        self._stop_if_told()
        self._send(Began())

    def restarted(self, run: Run, reason: str) -> None:
        """Add the event to the next message."""
        self._message.events.append(Restarted(self._identities[run], reason))

    def stepped(self, networks: int) -> None:
        """Count the steps until the next message."""
        self._networks += networks
        if time.monotonic() - self._sent > _EVERY:
            self._send()

    def epoch_ended(self, run: Run, epoch: Epoch) -> None:
        """Add the event to the next message."""
        self._message.events.append(EpochEnded(self._identities[run], epoch))

    def ended(self, outcome: Outcome) -> None:
        """Save the network if required, and send the ending."""
        self.endings.append(finish(self._identities[outcome.run], outcome, self._data, self._options))
        self._send(RunEnded(self.endings[-1]))

    def _send(self, *events: Event) -> None:
        """Send the message with these events at its end, and stop if the sign says so."""
        steps = [Stepped(self._networks)] if self._networks else []
        self._message.events.extend([*steps, *events])
        # put() would wait for an answer, during which Ray lends the core to another task
        self._receipt = self._messages.actor.put_nowait.remote(self._message.packed())  # type: ignore[attr-defined]
        self._message, self._networks, self._sent = Message(self._message.ticket), 0, time.monotonic()
        self._stop_if_told()

    def _stop_if_told(self) -> None:
        """Raise an error if the sign says so: once, because `train` reports further events while it stops."""
        try:
            told = self._sign.read_text() == STOP  # opened anew each time, so that a network file system refreshes it
        except FileNotFoundError:
            raise OSError(f"sweep: {self._sign.parent} was removed while the sweep ran") from None
        if told and not self._stopped:
            self._stopped = True
            raise _StoppedError

"""The engine interface: what trains the runs of a sweep, and what listens to it."""

from __future__ import annotations

import math
import socket
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, Self

from gradwalk.data import Dataset
from gradwalk.nets.export import save_network, sequential
from gradwalk.sweep.entry import Ending, Entry
from gradwalk.sweep.folder import CHECKPOINTS, network_path
from gradwalk.sweep.stacks import Job, make_jobs
from gradwalk.train import Epoch, Outcome, Run, Watcher, train

_ENDINGS_EVERY = 0.05  # seconds for which endings are collected before they are reported
_STEPS_EVERY = 0.1  # and steps


@dataclass(frozen=True)
class EngineOptions:
    """The options that an engine is constructed with.

    folder: of the sweep, an absolute path. threads: cores to use on this machine. save_every: seconds between
    checkpoints. device: of `gradwalk.train.train`. address: of a cluster; None unless the engine sets `takes_address`.
    save_networks: whether each finished network is written to the folder.
    """

    folder: Path
    threads: int
    save_every: float = 60.0
    device: str = "cpu"
    address: str | None = None
    save_networks: bool = False

    @property
    def checkpoints(self) -> Path:
        """The folder for the checkpoints of runs under way."""
        return self.folder / CHECKPOINTS


class Listener(Protocol):
    """Receives the events of an engine, in the thread that called `Engine.train`.

    Reporting an epoch or an ending twice is harmless: whatever is recorded already is ignored.
    """

    def began(self, job: Job) -> None:
        """Training of a job begins or resumes."""

    def restarted(self, identity: str, reason: str) -> None:
        """The checkpoint of a run cannot be used, for a reason given in one line, and the run starts anew."""

    def stepped(self, job: Job, networks: int) -> None:
        """That many networks of a job took one optimization step."""

    def epoch_ended(self, identity: str, epoch: Epoch) -> None:
        """A run finished an epoch."""

    def ended(self, endings: Iterable[Ending]) -> None:
        """Runs are done or diverged. An ending carries all epochs of its run."""

    def failed(self, identity: str, error: str) -> None:
        """A run cannot be trained, for a reason given in one line."""

    def unfinished(self, job: Job) -> Job:
        """Return the part of a job whose runs have neither ended nor failed."""
        ...


class Engine(Protocol):
    """Trains the runs of a sweep, on whatever machinery it likes.

    To add one, write a class with a `name` and these methods, call `ENGINES.register(MyEngine)`, and choose it with
    `run_sweep(..., engine="name")`. Subclassing `Engine` supplies everything but `name` and `train`; the smallest
    `train` is a loop over `train_job`.

    `run_sweep` constructs the engine with an `EngineOptions`, of which the constructor rejects what it cannot use. If
    there are runs to train, it enters the engine as a context manager, which acquires resources such as a cluster,
    calls `jobs` once and then `train` once. Set `takes_address` to accept `run_sweep(..., address=...)`.
    """

    name: ClassVar[str]
    takes_address: ClassVar[bool] = False
    options: EngineOptions

    def __init__(self, options: EngineOptions) -> None:
        self.options = options

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def jobs(self, entries: Iterable[Entry], data: Mapping[Run, Dataset], begun: frozenset[str]) -> list[Job]:
        """Return the runs grouped into stacks; `begun` holds the identities of runs that have a checkpoint.

        Any grouping of runs that may share a stack (`Run.stacks_with`) gives the same results.
        """
        return make_jobs(entries, data, self.options.threads, device=self.options.device, begun=begun)

    @abstractmethod
    def train(self, jobs: Sequence[Job], listener: Listener) -> None:
        """Train all jobs, and report every run to the listener as ended or failed before returning.

        One run's failure must not stop the others. An OSError means that the folder cannot be written and is raised.
        On KeyboardInterrupt, each run under way saves a checkpoint before the exception is raised again.
        """
        ...


def train_job(job: Job, options: EngineOptions, listener: Listener) -> None:
    """Train a job in this process and report its events; if it fails, halve it until the failing runs are isolated."""
    listener.began(job)
    watcher = JobWatcher(job, options, listener)
    try:
        with watcher:
            train(
                job.runs,
                job.data,
                device=options.device,
                threads=options.threads,
                folder=options.checkpoints,
                save_every=options.save_every,
                watcher=watcher,
            )
    except Exception as error:
        if watcher.listener_failed or isinstance(error, OSError):  # neither is the fault of a run
            raise
        for part in split_failed(job, error, listener):
            train_job(part, options, listener)


def split_failed(job: Job, error: BaseException, listener: Listener) -> list[Job]:
    """Return the halves of what is left of a job that raised an error; a single run is reported as failed instead."""
    rest = listener.unfinished(job)
    if len(rest.entries) > 1:
        return rest.halves()
    for identity in rest.identities:
        listener.failed(identity, one_line(error))
    return []


def one_line(error: BaseException) -> str:
    """Return the message of an error as one line, with its type unless it is a ValueError or TypeError."""
    message = " ".join(str(error).split())
    return message if isinstance(error, ValueError | TypeError) and message else f"{type(error).__name__}: {message}"


def finish(identity: str, outcome: Outcome, data: Dataset, options: EngineOptions) -> Ending:
    """Return how a run ended, after its network has been written if networks are saved.

    The network comes first, because a run whose ending is recorded is never trained again. A diverged run has none.
    """
    if options.save_networks and outcome.diverged is None:
        activations = outcome.run.architecture(data).activations
        network = sequential(outcome.state.weights, outcome.state.biases, activations)
        save_network(network, activations, network_path(options.folder, identity))
    return Ending(identity, outcome.epochs, outcome.diverged, outcome.state.seconds, socket.gethostname())


class JobWatcher(Watcher):
    """Forwards the events of `train` to a listener, with runs replaced by their identities.

    Runs of one stack often end together: their endings are collected for a moment and recorded in one transaction; so
    are their steps, which may be many. listener_failed: whether the listener itself raised an exception.
    """

    def __init__(self, job: Job, options: EngineOptions, listener: Listener) -> None:
        self._job, self._options, self._listener, self.listener_failed = job, options, listener, False
        self._identity = {entry.run: entry.identity for entry in job.entries}
        self._endings: list[Ending] = []
        self._since = math.inf
        self._steps, self._told = 0, -math.inf  # steps that were not forwarded yet, and when the last ones were

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._report_steps(0.0)
        self._report_endings(0.0)

    def restarted(self, run: Run, reason: str) -> None:
        """Forward the event."""
        self._tell(self._listener.restarted, self._identity[run], reason)

    def stepped(self, networks: int) -> None:
        """Count the steps, and forward them together with others."""
        self._steps += networks
        self._report_steps(_STEPS_EVERY)
        self._report_endings(_ENDINGS_EVERY)

    def epoch_ended(self, run: Run, epoch: Epoch) -> None:
        """Forward the event."""
        self._tell(self._listener.epoch_ended, self._identity[run], epoch)

    def ended(self, outcome: Outcome) -> None:
        """Save the network if required, and collect the ending."""
        self._endings.append(finish(self._identity[outcome.run], outcome, self._job.data, self._options))
        self._since = min(self._since, time.monotonic())
        self._report_endings(_ENDINGS_EVERY)

    def _report_steps(self, after: float) -> None:
        now = time.monotonic()
        if self._steps and now - self._told >= after:
            steps, self._steps, self._told = self._steps, 0, now
            self._tell(self._listener.stepped, self._job, steps)

    def _report_endings(self, after: float) -> None:
        if self._endings and time.monotonic() - self._since >= after:
            endings, self._endings, self._since = self._endings, [], math.inf
            self._tell(self._listener.ended, endings)

    def _tell(self, event: Callable[..., None], *arguments: object) -> None:
        """Pass an event to the listener, and note if the listener fails."""
        try:
            event(*arguments)
        except Exception:
            self.listener_failed = True
            raise

"""What an engine is, and who listens to it."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, Self

from gradwalk.data import Dataset
from gradwalk.sweep.stacks import Job, jobs
from gradwalk.sweep.writer import Ending, Entry
from gradwalk.train import Epoch, Outcome, Run, Watcher, train

_MOMENT = 0.05  # seconds


class Listener(Protocol):
    """Is told what an engine does, in the thread that called the engine."""

    def began(self, job: Job) -> None: ...

    def stepped(self, job: Job, networks: int) -> None: ...

    def measured(self, identity: str, epoch: Epoch) -> None: ...

    def ended(self, endings: Iterable[Ending]) -> None: ...

    def failed(self, identity: str, error: str) -> None: ...

    def unfinished(self, job: Job) -> Job: ...


class Engine(Protocol):
    """Groups runs into jobs, and trains them."""

    def jobs(self, entries: Iterable[Entry], data: Mapping[Run, Dataset], begun: frozenset[str]) -> list[Job]: ...

    def train(self, jobs: Sequence[Job], listener: Listener) -> None: ...


class Local:
    """The engine of one machine: a stack after the other, each on all threads."""

    def __init__(self, threads: int, folder: Path, save_every: float) -> None:
        self.threads, self.folder, self.save_every = threads, folder, save_every

    def jobs(self, entries: Iterable[Entry], data: Mapping[Run, Dataset], begun: frozenset[str]) -> list[Job]:
        """Return stacks in the order of the runs, those that have begun first."""
        return jobs(entries, data, self.threads, begun=begun)

    def train(self, jobs: Sequence[Job], listener: Listener) -> None:
        """Train the jobs. What is wrong with one run must not hold up the others, so they are parted to find it.

        What the file system refuses would be refused to the next run too: that ends the sweep, and nothing is lost.
        """
        for job in jobs:
            listener.began(job)
            told = Told(job, listener)
            try:
                with told:
                    self._train(job, told)
            except Exception as error:
                if told.trouble or isinstance(error, OSError):
                    raise
                self.train(settled(job, error, listener), listener)

    def _train(self, job: Job, watcher: Watcher) -> None:
        train(
            job.runs,
            job.data,
            threads=self.threads,
            folder=self.folder,
            save_every=self.save_every,
            watcher=watcher,
        )


def settled(job: Job, error: BaseException, listener: Listener) -> list[Job]:
    """Return the jobs to try after an error: half of the runs left and the other half, none if there is but one."""
    rest = listener.unfinished(job)
    if len(rest.entries) > 1:
        return rest.halves()
    for identity in rest.identities:
        listener.failed(identity, sentence(error))
    return []


def sentence(error: BaseException) -> str:
    """Return what went wrong, in one line."""
    said = " ".join(str(error).split())
    return said if isinstance(error, ValueError | TypeError) and said else f"{type(error).__name__}: {said}"


class Told(Watcher):
    """Passes on what `train` tells, by the runs' identities; trouble: the listener itself has failed.

    Runs of a stack end side by side: how they did is passed on for all that do within a moment.
    """

    def __init__(self, job: Job, listener: Listener) -> None:
        self._job, self._listener, self.trouble = job, listener, False
        self._identity = {entry.run: entry.identity for entry in job.entries}
        self._endings: list[Ending] = []
        self._since = math.inf

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *what: object) -> None:
        self._pass_on(0.0)

    def stepped(self, networks: int) -> None:
        """Networks of the job took a step."""
        self._pass_on(_MOMENT)
        with self._trouble():
            self._listener.stepped(self._job, networks)

    def epoch_ended(self, run: Run, epoch: Epoch) -> None:
        """A run finished an epoch."""
        with self._trouble():
            self._listener.measured(self._identity[run], epoch)

    def ended(self, outcome: Outcome) -> None:
        """A run ended."""
        self._endings.append(ending(self._identity[outcome.run], outcome))
        self._since = min(self._since, time.monotonic())
        self._pass_on(_MOMENT)

    def _pass_on(self, moment: float) -> None:
        if self._endings and time.monotonic() - self._since >= moment:
            endings, self._endings, self._since = self._endings, [], math.inf
            with self._trouble():
                self._listener.ended(endings)

    @contextmanager
    def _trouble(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            self.trouble = True
            raise


def ending(identity: str, outcome: Outcome) -> Ending:
    """Return how a run ended, without its weights."""
    return Ending(identity, outcome.epochs, outcome.diverged, outcome.state.seconds, socket.gethostname())

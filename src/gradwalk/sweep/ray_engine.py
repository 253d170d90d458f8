"""The engine of a cluster: each stack is a Ray task, and the driver alone writes the store.

A task tells what happens in letters through a queue beside the driver, and returns how its runs ended. What is told
may be lost with a node, and what a task returns may be known already: the store takes both. A task whose node dies is
submitted again with the runs that have not ended, which go on from the checkpoints in the folder that all nodes share.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import ray
from ray.util.queue import Queue

from gradwalk.data import Dataset
from gradwalk.sweep import ray_cluster, ray_task
from gradwalk.sweep.engine import Listener, settled
from gradwalk.sweep.stacks import Job, jobs
from gradwalk.sweep.writer import Entry
from gradwalk.train import Run

RETRIES = 5  # of a stack whose worker or node dies, before its runs are parted
_POLL = 0.3  # seconds between two looks at the tasks
_PATIENCE = 60.0  # seconds that tasks have for their checkpoints on an interrupt
_MEMORY_SHARE = 0.5  # of a node's memory, divided by its cores


class RayEngine:
    """Trains on the cluster at `address`, or on one that it starts on this machine with `threads` cores."""

    def __init__(self, address: str | None, threads: int, folder: Path, save_every: float) -> None:
        self.folder, self.save_every = folder, save_every
        self._joined = ray_cluster.join(address, threads)
        self._data: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._sign = self.folder / f".{uuid.uuid4().hex}"
        self._sign.write_text(ray_task.GO)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sign.unlink(missing_ok=True)
        if self._joined:
            ray.shutdown()

    def jobs(self, entries: Iterable[Entry], data: Mapping[Run, Dataset], begun: frozenset[str]) -> list[Job]:
        """Return stacks for one core each, enough of them for all cores, those with the most work first."""
        nodes = ray_cluster.nodes()
        room = _MEMORY_SHARE * min(node.memory / node.cores for node in nodes)
        cores = sum(node.cores for node in nodes)
        found = jobs(entries, data, 1, memory=room, begun=begun, stacks=cores)
        return sorted(found, key=lambda job: -job.flops)

    def train(self, jobs: Sequence[Job], listener: Listener) -> None:
        """Train the jobs, and what is left of those whose node dies."""
        course = _Course(self, jobs, listener)
        try:
            course.run()
        except BaseException:
            course.stop()
            raise

    def tell_to_stop(self) -> None:
        """Let all tasks know; ray.cancel() can bring down the driver (Ray 2.60, a race in its TaskManager)."""
        self._sign.write_text(ray_task.STOP)

    def submit(self, job: Job, letters: Queue, ticket: int, threads: int) -> Any:
        """Return the task that trains a job; its data are put into the object store once."""
        if id(job.data) not in self._data:
            self._data[id(job.data)] = ray.put(job.data)
        memory = min(job.memory, max(node.memory for node in ray_cluster.nodes()))
        task = ray.remote(ray_task.train_stack).options(num_cpus=threads, memory=memory, max_retries=0)
        return task.remote(job.entries, self._data[id(job.data)], letters, ticket, threads, self._sign, self.save_every)


class _Course:
    """The tasks under way, by their reference: the job, and how often it was tried."""

    def __init__(self, engine: RayEngine, jobs: Sequence[Job], listener: Listener) -> None:
        self._engine, self._listener = engine, listener
        self._tasks: dict[Any, tuple[Job, int]] = {}
        self._jobs: list[Job] = []  # by their tickets
        self._letters = ray_cluster.letters()
        self._threads = ray_cluster.threads_a_task(len(jobs))
        for job in jobs:
            self._submit(job)

    def run(self) -> None:
        """Wait for the tasks, pass on what they tell, and submit again what must be."""
        while self._tasks:
            ready, _ = ray.wait(list(self._tasks), num_returns=1, timeout=_POLL)
            self._listen()
            for reference in ready:
                self._settle(reference, *self._tasks.pop(reference))

    def stop(self) -> None:
        """Let the tasks write their checkpoints and end."""
        with contextlib.suppress(Exception):  # the cluster may be what is gone
            self._engine.tell_to_stop()
            ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=_PATIENCE)
            self._listen()

    def _submit(self, job: Job, tried: int = 0) -> None:
        reference = self._engine.submit(job, self._letters, len(self._jobs), self._threads)
        self._jobs.append(job)
        self._tasks[reference] = (job, tried)

    def _settle(self, reference: Any, job: Job, tried: int) -> None:
        """Take what a task returned; a failure of ours parts the runs, one of the cluster's is tried again."""
        try:
            self._listener.ended(ray.get(reference))
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, OSError):
                raise OSError(str(error.cause)) from None
            self._again(settled(job, error.cause, self._listener))
        except ray.exceptions.RayError as error:
            rest = self._listener.unfinished(job)
            if tried >= RETRIES:
                self._again(settled(job, error, self._listener))
            elif rest.entries:
                self._submit(rest, tried + 1)

    def _again(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._submit(job)

    def _listen(self) -> None:
        for letter in self._letters.get_nowait_batch(self._letters.qsize()):
            for ticket, method, *arguments in letter:
                if method in ("began", "stepped"):
                    arguments.insert(0, self._jobs[ticket])
                getattr(self._listener, method)(*arguments)

"""The driver of a sweep on Ray: submits stacks as tasks, forwards their events, and resubmits what a dead node lost."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray

from gradwalk.sweep import ray_cluster
from gradwalk.sweep.engine import EngineOptions, Listener, split_failed
from gradwalk.sweep.extensions import sent
from gradwalk.sweep.ray_task import STOP, Began, EpochEnded, Event, Message, Restarted, RunEnded, Stepped, train_stack
from gradwalk.sweep.stacks import Job

RETRIES = 5  # of a stack whose worker or node dies, before it is split
_POLL = 0.3  # seconds between two looks at the tasks
_PATIENCE = 60.0  # seconds that tasks have for their checkpoints on an interrupt


class Driver:
    """The tasks under way, by their reference: each with its job and the number of times it was tried."""

    def __init__(self, options: EngineOptions, sign: Path, jobs: Sequence[Job], listener: Listener) -> None:
        self._options = replace(options, threads=ray_cluster.threads_per_task(len(jobs), options.device))
        self._sign, self._listener = sign, listener
        self._tasks: dict[Any, tuple[Job, int]] = {}
        self._tickets: list[Job] = []  # a task's messages carry its job's index in this list
        self._data: dict[int, Any] = {}  # object references, by the id of the data set
        self._extensions = sent(ray.put)
        self._messages = ray_cluster.message_queue()
        self._events: deque[tuple[Job, Event]] = deque()  # those not yet forwarded: a listener may be interrupted
        for job in jobs:
            self._submit(job)

    def run(self) -> None:
        """Wait for the tasks, forward their events, and resubmit where needed."""
        while self._tasks:
            ready, _ = ray.wait(list(self._tasks), num_returns=1, timeout=_POLL)
            self._forward()
            for reference in ready:
                self._settle(reference, *self._tasks.pop(reference))

    def stop(self) -> None:
        """Let the tasks write their checkpoints and end, and record the runs that ended meanwhile.

        The sign file asks them to: ray.cancel() can bring down the driver (Ray 2.60, a race in its TaskManager).
        """
        with contextlib.suppress(Exception):  # the cluster itself may be gone
            self._sign.write_text(STOP)
            ready, _ = ray.wait(list(self._tasks), num_returns=len(self._tasks), timeout=_PATIENCE)
            self._forward()
            for reference in ready:
                self._listener.ended(ray.get(reference))  # a message may still be under way

    def _submit(self, job: Job, tries: int = 0) -> None:
        """Submit a job as a task; its data set is put into the object store once."""
        if id(job.data) not in self._data:
            self._data[id(job.data)] = ray.put(job.data)
        resources = ray_cluster.resources(self._options.threads, job.memory, self._options.device)
        task = ray.remote(train_stack).options(**resources, max_retries=0)
        data, ticket = self._data[id(job.data)], len(self._tickets)
        reference = task.remote(job.entries, data, self._extensions, self._messages, ticket, self._options, self._sign)
        self._tickets.append(job)
        self._tasks[reference] = (job, tries)

    def _settle(self, reference: Any, job: Job, tries: int) -> None:
        """Record what a task returned. An error of training splits the job; one of the cluster is tried again."""
        try:
            self._listener.ended(ray.get(reference))
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, OSError):
                raise OSError(str(error.cause)) from None
            self._submit_all(split_failed(job, error.cause, self._listener))
        except ray.exceptions.RayError as error:
            rest = self._listener.unfinished(job)
            if tries >= RETRIES:
                self._submit_all(split_failed(job, error, self._listener))
            elif rest.entries:
                self._submit(rest, tries + 1)

    def _submit_all(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            self._submit(job)

    def _forward(self) -> None:
        for message in map(Message.unpacked, self._messages.get_nowait_batch(self._messages.qsize())):
            self._events.extend((self._tickets[message.ticket], event) for event in message.events)
        while self._events:
            self._report(*self._events.popleft())

    def _report(self, job: Job, event: Event) -> None:
        match event:
            case Began():
                self._listener.began(job)
            case Restarted(identity, reason):
                self._listener.restarted(identity, reason)
            case Stepped(networks):
                self._listener.stepped(job, networks)
            case EpochEnded(identity, epoch):
                self._listener.epoch_ended(identity, epoch)
            case RunEnded(ending):
                self._listener.ended([ending])

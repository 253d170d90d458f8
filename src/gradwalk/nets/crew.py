"""A crew: threads that help another one with its work, and wait for it without spinning.

Work is given in tasks. A task is run by whichever thread reaches it first, also by the one that gave it: a helper that
gets no processor time, because another process needs it, holds up one task at most.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from types import TracebackType

import numpy as np
import torch

from gradwalk.nets.pace import Pace

Step = Callable[[], object]  # an operation bound to its operands

THREAD_FLOPS = 2.5e6  # that a product of a layer must have to occupy a thread: measured, see docs/performance.md


def run(steps: Iterable[Step]) -> None:
    """Run the steps one after the other."""
    for step in steps:
        step()


class Task:
    """Steps that are run once, by the first thread that begins them."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self._steps = steps
        self._begun, self._ended = threading.Lock(), threading.Lock()
        self._ended.acquire()
        self._error: BaseException | None = None

    def begin(self) -> None:
        """Run the steps, unless another thread has begun them."""
        if not self._begun.acquire(blocking=False):
            return
        try:
            run(self._steps)
        except BaseException as error:
            self._error = error  # raised by `finish`, in the thread that gave the task
        finally:
            self._ended.release()

    def finish(self) -> None:
        """Run the steps, or wait for the thread that has begun them; raise what they raised."""
        self.begin()
        with self._ended:
            if self._error is not None:
                raise self._error


class Crew:
    """One thread, the one that uses it, and `helpers` more, which live until the end of the `with` block.

    Where steps are `timed`, the helpers rest while these take less time without them.
    """

    def __init__(self, helpers: int = 0) -> None:
        self._pace = Pace()
        self._tasks: SimpleQueue[Task | None] | None = SimpleQueue() if helpers else None
        self._helpers = [threading.Thread(target=self._help, daemon=True) for _ in range(helpers)]
        for helper in self._helpers:
            helper.start()

    @property
    def threads(self) -> int:
        """The number of threads, that of the caller included."""
        return 1 + len(self._helpers)

    @property
    def working(self) -> int:
        """The number of threads that work now."""
        return self.threads if self._pace.helped else 1

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Time a step, and let the helpers work or rest in the next one."""
        start = time.perf_counter()
        yield
        if self._helpers:
            self._pace.note(time.perf_counter() - start)

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the helpers end, after the tasks that they were given."""
        for _ in self._helpers:
            self._queue.put(None)
        for helper in self._helpers:
            helper.join()

    def give(self, steps: Iterable[Step]) -> Task:
        """Return a task of these steps for the helpers; where none works, it is run before it is returned."""
        task = Task(steps)
        if self.working > 1:
            self._queue.put(task)
        else:
            task.begin()
        return task

    def share(self, parts: Sequence[Iterable[Step]]) -> None:
        """Run parts that do not depend on each other, the first of them in this thread."""
        tasks = [self.give(part) for part in parts[1:]]
        run(parts[0])
        for task in reversed(tasks):
            task.finish()

    def trail(self, stages: Iterable[tuple[Iterable[Step], Iterable[Step]]], ahead: int) -> None:
        """Run the first half of each stage in turn, and leave the second to the helpers.

        ahead: how many first halves may have been run before the second half of the first of them has.
        """
        tasks: list[Task] = []
        for first, second in stages:
            if len(tasks) >= ahead:
                tasks[-ahead].finish()
            run(first)
            tasks.append(self.give(second))
        for task in reversed(tasks):  # the helpers are at the oldest
            task.finish()

    @property
    def _queue(self) -> SimpleQueue[Task | None]:
        assert self._tasks is not None
        return self._tasks

    def _help(self) -> None:
        torch.set_flush_denormal(True)  # of this thread, as in that of the worker
        with torch.no_grad(), np.errstate(all="ignore"):
            for task in iter(self._queue.get, None):
                task.begin()

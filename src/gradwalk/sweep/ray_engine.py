"""The engine of a Ray cluster. Ray is imported only when the engine is used."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Self

from gradwalk.data import Dataset
from gradwalk.sweep.engine import Engine, EngineOptions, Listener
from gradwalk.sweep.entry import Entry
from gradwalk.sweep.stacks import Job, make_jobs
from gradwalk.train import Run

_MEMORY_SHARE = 0.5  # of a node's memory, divided by its cores
_DEVICES = ("cpu", "cuda")


class RayEngine(Engine):
    """Trains each stack as a Ray task: on the cluster at `address`, or on one started on this machine.

    Only the driver writes the store. Tasks send their events through a queue next to the driver and return how their
    runs ended; events may be lost with a node, and an ending may arrive twice. A task whose node dies is submitted
    again with the runs that have not ended, which resume from the checkpoints in the folder that all nodes share.
    """

    name = "ray"
    takes_address = True

    def __init__(self, options: EngineOptions) -> None:
        if find_spec("ray") is None:
            raise ModuleNotFoundError("sweep: engine='ray' needs Ray: pip install 'gradwalk[ray]'", name="ray")
        if options.device not in _DEVICES:
            raise ValueError(
                "sweep: device must be 'cpu' or 'cuda' with engine='ray', where Ray assigns the GPUs, got "
                f"device={options.device!r}"
            )
        super().__init__(options)

    def __enter__(self) -> Self:
        from gradwalk.sweep import ray_cluster
        from gradwalk.sweep.ray_task import GO

        with ExitStack() as opened:
            opened.enter_context(ray_cluster.joined(self.options.address, self.options.threads))
            self.options.checkpoints.mkdir(parents=True, exist_ok=True)
            self._sign = self.options.checkpoints / f".{uuid.uuid4().hex}"
            self._sign.write_text(GO)
            opened.callback(self._sign.unlink, missing_ok=True)
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.close()

    def jobs(self, entries: Iterable[Entry], data: Mapping[Run, Dataset], begun: frozenset[str]) -> list[Job]:
        """Return stacks for one worker each, enough to keep all workers busy, those with the most work first."""
        from gradwalk.sweep import ray_cluster

        nodes = ray_cluster.nodes(self.options.device)
        memory = _MEMORY_SHARE * min(node.memory / node.cores for node in nodes)
        workers = sum(node.workers(self.options.device) for node in nodes)
        stacks = make_jobs(entries, data, 1, memory=memory, begun=begun, stacks=workers)
        return sorted(stacks, key=lambda job: -job.flops)

    def train(self, jobs: Sequence[Job], listener: Listener) -> None:
        """Train the jobs, and resubmit what is left of those whose node dies."""
        from gradwalk.sweep.ray_driver import Driver

        driver = Driver(self.options, self._sign, jobs, listener)
        try:
            driver.run()
        except BaseException:
            driver.stop()
            raise

"""The engine of one machine."""

from collections.abc import Sequence

from gradwalk.nets.device import check_device
from gradwalk.sweep.engine import Engine, EngineOptions, Listener, train_job
from gradwalk.sweep.stacks import Job


class LocalEngine(Engine):
    """Trains on this machine, one stack after another, each on all threads."""

    name = "local"

    def __init__(self, options: EngineOptions) -> None:
        check_device(options.device, "sweep")
        super().__init__(options)

    def train(self, jobs: Sequence[Job], listener: Listener) -> None:
        """Train the jobs in order."""
        for job in jobs:
            train_job(job, self.options, listener)

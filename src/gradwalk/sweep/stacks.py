"""Groups runs into stacks of one architecture, large enough for the processor and small enough for memory.

Any grouping gives the same results: a run does not depend on the others in its stack.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from gradwalk.data import Dataset
from gradwalk.nets.device import free_memory
from gradwalk.nets.footprint import stack_bytes
from gradwalk.nets.widths import layer_flops, parameter_count
from gradwalk.sweep.entry import Entry
from gradwalk.train import Architecture, Run

# Measured on 2 cores, see docs/performance.md: at N=88 and a batch of 100, throughput rises up to 16 networks per
# thread; narrower networks need more of them for the same work per layer, and gain nothing past 64.
_LAYER_FLOPS = 2.5e7
_FEWEST, _MOST = 8, 64  # networks per thread
_MEMORY_SHARE = 0.25  # of the free memory


@dataclass(frozen=True)
class Job:
    """Runs to train as one stack, and their data set."""

    entries: tuple[Entry, ...]
    data: Dataset

    @property
    def runs(self) -> list[Run]:
        """The runs."""
        return [entry.run for entry in self.entries]

    @property
    def identities(self) -> list[str]:
        """The identities of the runs, in the same order."""
        return [entry.identity for entry in self.entries]

    @cached_property
    def architecture(self) -> Architecture:
        """The widths and activations, which all runs share."""
        return self.entries[0].run.architecture(self.data)

    @property
    def memory(self) -> int:
        """The bytes that training needs, initial weights included."""
        (widths, activations), run = self.architecture, self.entries[0].run
        weights = 4 * len(self.entries) * parameter_count(widths)
        return stack_bytes(widths, activations, len(self.entries), run.batch, run.optimizer) + weights

    @property
    def steps(self) -> int:
        """Steps per epoch."""
        return math.ceil(len(self.data.train) / self.entries[0].run.batch)

    @cached_property
    def epoch_flops(self) -> float:
        """The floating-point operations of one network per epoch: its steps, and its share of the measurements."""
        examples = len(self.data.train), len(self.data.test)
        return epoch_flops(self.architecture.widths, *examples, self.entries[0].run.measure_every)

    @property
    def flops(self) -> float:
        """The floating-point operations of all runs, if none diverges."""
        return self.epoch_flops * sum(run.epochs for run in self.runs)

    def part(self, entries: Iterable[Entry]) -> Job:
        """Return a job of these entries with the same data."""
        return Job(tuple(entries), self.data)

    def halves(self) -> list[Job]:
        """Return two jobs with half of the runs each."""
        middle = len(self.entries) // 2
        return [self.part(self.entries[:middle]), self.part(self.entries[middle:])]


def epoch_flops(widths: Sequence[int], train_examples: int, test_examples: int, measure_every: int = 1) -> float:
    """Return the floating-point operations of one network per epoch, counting matrix products only.

    A step multiplies by each weight three times per example, except that nothing is propagated back through the first
    layer; after every `measure_every` epochs both splits are propagated forward once more.

    >>> epoch_flops((10, 5, 2), 100, 50)
    44000.0
    """
    products = [fan_in * fan_out for fan_in, fan_out in pairwise(widths)]
    step = 3 * sum(products) - products[0]
    return 2.0 * (train_examples * step + (train_examples + test_examples) * sum(products) / measure_every)


def make_jobs(
    entries: Iterable[Entry],
    data: Mapping[Run, Dataset],
    threads: int,
    *,
    device: str = "cpu",
    memory: float | None = None,
    begun: frozenset[str] = frozenset(),
    stacks: int = 1,
) -> list[Job]:
    """Return the runs grouped into stacks, in order, except that runs that have begun come first.

    threads: per stack. memory: bytes per stack (default: a quarter of the device's free memory). stacks: the number
    trained at the same time; there are at least as many jobs, if there are enough runs.
    """
    room = free_memory(device) * _MEMORY_SHARE if memory is None else memory
    groups: dict[object, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: entry.identity not in begun):
        groups.setdefault((entry.identity in begun, entry.run.stacks_with()), []).append(entry)
    jobs = []
    for group in groups.values():
        whole = Job(tuple(group), data[group[0].run])
        size = stack_size(whole, threads, room)
        count = max(math.ceil(len(group) / size), min(stacks, math.ceil(len(group) / threads)))
        jobs += [whole.part(part) for part in _evenly(group, count)]
    return jobs


def stack_size(job: Job, threads: int, room: float) -> int:
    """Return the number of networks per stack for runs like the job's."""
    layer = layer_flops(job.architecture.widths, job.entries[0].run.batch)
    enough = threads * min(max(round(_LAYER_FLOPS / layer), _FEWEST), _MOST)
    return max(1, min(enough, int(room // job.part(job.entries[:1]).memory)))


def _evenly(entries: Sequence[Entry], parts: int) -> list[Sequence[Entry]]:
    edges = [round(len(entries) * part / parts) for part in range(parts + 1)]
    return [entries[start:stop] for start, stop in pairwise(edges) if stop > start]

"""Which runs train together: stacks of one architecture, large enough for the processor and small enough for memory.

Any grouping gives the same numbers: a run does not depend on the others in its stack.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import psutil

from gradwalk.data import Dataset
from gradwalk.nets.memory import stack_bytes
from gradwalk.nets.widths import layer_flops, parameter_count
from gradwalk.sweep.writer import Entry
from gradwalk.train import Architecture, Run

# Measured on 2 cores, see docs/performance.md: at N=88 and a batch of 100, networks a second rise up to 16 networks a
# thread; narrower networks need more of them for as much work a layer, and past 64 gain nothing.
_LAYER_FLOPS = 2.5e7
_FEWEST, _MOST = 8, 64  # networks a thread
_MEMORY_SHARE = 0.25  # of what is free


@dataclass(frozen=True)
class Job:
    """Runs to train as one stack, and their data."""

    entries: tuple[Entry, ...]
    data: Dataset

    @property
    def runs(self) -> list[Run]:
        """The runs themselves."""
        return [entry.run for entry in self.entries]

    @property
    def identities(self) -> list[str]:
        """The identities of the runs, in the same order."""
        return [entry.identity for entry in self.entries]

    @cached_property
    def architecture(self) -> Architecture:
        """Widths and activations, which all runs share."""
        return self.entries[0].run.architecture(self.data)

    @property
    def memory(self) -> int:
        """The bytes that training takes, the weights that it begins with included."""
        widths, activations = self.architecture
        weights = 4 * len(self.entries) * parameter_count(widths)
        return stack_bytes(widths, activations, len(self.entries), self.entries[0].run.batch) + weights

    @property
    def steps(self) -> int:
        """Steps an epoch."""
        return math.ceil(len(self.data.train) / self.entries[0].run.batch)

    @cached_property
    def epoch_flops(self) -> float:
        """The floating-point operations of an epoch of one network: its steps, and the measurement at the end."""
        return epoch_flops(self.architecture.widths, len(self.data.train), len(self.data.test))

    @property
    def flops(self) -> float:
        """The floating-point operations of all runs, if none diverges."""
        return self.epoch_flops * sum(run.epochs for run in self.runs)

    def part(self, entries: Iterable[Entry]) -> Job:
        """Return the job of some of the runs."""
        return Job(tuple(entries), self.data)

    def halves(self) -> list[Job]:
        """Return two jobs of half the runs each."""
        middle = len(self.entries) // 2
        return [self.part(self.entries[:middle]), self.part(self.entries[middle:])]


def epoch_flops(widths: Sequence[int], train_examples: int, test_examples: int) -> float:
    """Return the floating-point operations of an epoch of one network, products alone.

    A step multiplies by each weight three times an example, but nothing goes back through the first layer; both splits
    go forward once more at the end of the epoch.

    >>> epoch_flops((10, 5, 2), 100, 50)
    44000.0
    """
    products = [fan_in * fan_out for fan_in, fan_out in pairwise(widths)]
    step = 3 * sum(products) - products[0]
    return 2.0 * (train_examples * step + (train_examples + test_examples) * sum(products))


def jobs(
    entries: Iterable[Entry],
    data: Mapping[Run, Dataset],
    threads: int,
    *,
    memory: float | None = None,
    begun: frozenset[str] = frozenset(),
    stacks: int = 1,
) -> list[Job]:
    """Return the runs in stacks, in the order of the runs; those that have begun come first.

    threads: that train a stack. memory: bytes that it may take, a share of what is free if not given. stacks: that are
    trained at the same time, none of which should be without work.
    """
    room = psutil.virtual_memory().available * _MEMORY_SHARE if memory is None else memory
    groups: dict[object, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: entry.identity not in begun):
        groups.setdefault((entry.identity in begun, entry.run.stacks_with()), []).append(entry)
    found = []
    for group in groups.values():
        whole = Job(tuple(group), data[group[0].run])
        size = networks(whole, threads, room)
        count = max(math.ceil(len(group) / size), min(stacks, math.ceil(len(group) / threads)))
        found += [whole.part(part) for part in _evenly(group, count)]
    return found


def networks(job: Job, threads: int, room: float) -> int:
    """Return how many networks of the job's kind one stack should have."""
    layer = layer_flops(job.architecture.widths, job.entries[0].run.batch)
    wanted = threads * min(max(round(_LAYER_FLOPS / layer), _FEWEST), _MOST)
    return max(1, min(wanted, int(room // job.part(job.entries[:1]).memory)))


def _evenly(entries: Sequence[Entry], parts: int) -> list[Sequence[Entry]]:
    edges = [round(len(entries) * part / parts) for part in range(parts + 1)]
    return [entries[start:stop] for start, stop in pairwise(edges) if stop > start]

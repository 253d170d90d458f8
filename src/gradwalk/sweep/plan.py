"""What a sweep will take: runs, stacks, operations, memory, and the time as measured on this machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from gradwalk import checks
from gradwalk.data import Datasets
from gradwalk.nets.device import check_device
from gradwalk.sweep.entry import resolve
from gradwalk.sweep.spec import Spec
from gradwalk.sweep.stacks import Job, make_jobs
from gradwalk.sweep.store import Store


@dataclass(frozen=True)
class PlanRow:
    """The runs of one architecture that are still to be trained.

    networks: in the largest stack. memory: of that stack, in bytes. flops: floating-point operations of all runs.
    seconds: on this machine, None if not measured.
    """

    data: str
    task: str
    activation: str
    depth: int
    width: int
    parameters: int
    runs: int
    stacks: int
    networks: int
    memory: int
    flops: float
    seconds: float | None


@dataclass(frozen=True)
class Plan:
    """What is left to train: one row per architecture; `kept` of the spec's `total` runs have ended already."""

    rows: list[PlanRow]
    total: int
    kept: int
    threads: int

    @property
    def seconds(self) -> float | None:
        """The total time on this machine, without loading data and solving for gains; None if not measured."""
        times = [row.seconds for row in self.rows]
        return None if None in times else math.fsum(seconds or 0.0 for seconds in times)


def plan(
    spec: Spec,
    folder: str | Path | None = None,
    *,
    device: str = "cpu",
    threads: int | None = None,
    measure: bool = True,
    datasets: Datasets | None = None,
) -> Plan:
    """Return what a sweep will take, without the runs that have ended in `folder`; nothing is written.

    measure: train the first steps of each architecture, for about a second each, to estimate the time. datasets:
    a cache to load the data from.
    """
    cores = checks.whole("sweep", "threads", (psutil.cpu_count() or 1) if threads is None else threads)
    entries, data = resolve(spec, datasets)
    ended = _ended(folder)
    waiting = [entry for entry in entries if entry.identity not in ended]
    groups: dict[object, list[Job]] = {}
    for job in make_jobs(waiting, data, cores, device=check_device(device, "sweep")):
        groups.setdefault(job.entries[0].run.stacks_with(), []).append(job)
    largest = [max(group, key=lambda job: len(job.entries)) for group in groups.values()]
    speeds = _speeds(largest, cores, device) if measure else [None] * len(largest)
    rows = [_row(group, speed) for group, speed in zip(groups.values(), speeds, strict=True)]
    return Plan(rows, len(entries), len(entries) - len(waiting), cores)


def _ended(folder: str | Path | None) -> set[str]:
    if folder is None:
        return set()
    try:
        with Store(folder) as store:
            return {identity for identity, status in store.statuses().items() if status in ("done", "diverged")}
    except FileNotFoundError:
        return set()


def _row(group: Sequence[Job], speed: float | None) -> PlanRow:
    entry, flops = group[0].entries[0], math.fsum(job.flops for job in group)
    return PlanRow(
        data=entry.run.data,
        task=entry.run.task,
        activation=entry.run.activation,
        depth=entry.run.depth,
        width=max(group[0].architecture.widths[1:-1]),
        parameters=entry.parameters,
        runs=sum(len(job.entries) for job in group),
        stacks=len(group),
        networks=max(len(job.entries) for job in group),
        memory=max(job.memory for job in group),
        flops=flops,
        seconds=None if speed is None else flops / speed,
    )


def _speeds(jobs: Sequence[Job], threads: int, device: str) -> list[float]:
    from gradwalk.sweep.speed import speeds  # it trains, with torch

    return speeds(jobs, threads, device)

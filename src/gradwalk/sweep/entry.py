"""Runs as they enter and leave a sweep: what is known before training, and what training returned."""

from __future__ import annotations

from dataclasses import dataclass

from gradwalk.data import Dataset, Datasets
from gradwalk.nets.widths import parameter_count
from gradwalk.sweep.spec import Spec
from gradwalk.train import Epoch, Run


@dataclass(frozen=True)
class Entry:
    """A run with its identity and what is known before it is trained."""

    identity: str
    run: Run
    parameters: int
    train_examples: int
    test_examples: int


@dataclass(frozen=True)
class Ending:
    """How a run ended: all its epochs, the epoch in which it diverged (or None), seconds of training, and the host."""

    identity: str
    epochs: tuple[Epoch, ...]
    diverged: int | None
    seconds: float
    host: str


def resolve(spec: Spec, datasets: Datasets | None = None) -> tuple[list[Entry], dict[Run, Dataset]]:
    """Return an entry per distinct run of a spec, and the data set of each run, each loaded once."""
    cache = datasets or Datasets()
    data = {run: cache.load(run.data, run.examples, run.scaling) for run in spec.runs()}
    entries = (_entry(run, dataset) for run, dataset in data.items())
    return list({entry.identity: entry for entry in entries}.values()), data


def _entry(run: Run, data: Dataset) -> Entry:
    try:
        parameters = parameter_count(run.architecture(data).widths)
    except ValueError as error:
        raise ValueError(f"sweep: a run of depth {run.depth} cannot be built: {error}") from None
    return Entry(run.identity(data), run, parameters, len(data.train), len(data.test))

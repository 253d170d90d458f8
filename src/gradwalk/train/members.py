"""The members of a stack: runs with the parameters that they start or resume from."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gradwalk.data import Dataset
from gradwalk.nets.blueprint import Layer
from gradwalk.train.checkpoint import checkpoint_path, load_state
from gradwalk.train.run import Run
from gradwalk.train.state import State


@dataclass
class Member:
    """A run on its way: its place among the runs that were passed to `train`, its identity and its state.

    layers: the weights (in, out) and biases that it starts or resumes from, layer by layer, to be consumed once.
    """

    place: int
    run: Run
    identity: str
    state: State
    layers: Iterator[Layer]

    @property
    def is_done(self) -> bool:
        """Whether the run has diverged, has had all its epochs, or may stop because it made no mistake."""
        state, run = self.state, self.run
        may_stop = run.stop_at_zero and run.task == "classify"
        flawless = may_stop and any(epoch.train_mistakes == 0 for epoch in state.history)
        return state.diverged is not None or state.epochs >= run.epochs or flawless


def member(place: int, run: Run, data: Dataset, folder: Path | None = None, device: str = "cpu") -> Member:
    """Return a run with its initial layers, or with the state of its checkpoint in `folder` if there is one."""
    identity = run.identity(data)
    path = None if folder is None else checkpoint_path(folder, identity)
    if path is not None and path.exists():
        state = load_state(path, identity, device)
        return Member(place, run, identity, state, zip(state.weights, state.biases, strict=True))
    return Member(place, run, identity, State([], []), run.initial_layers(data, device))

"""The members of a stack: runs with the parameters that they start or resume from."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from gradwalk.data import Dataset
from gradwalk.nets.blueprint import Layer
from gradwalk.nets.draws import initial_layers
from gradwalk.train.checkpoint import CheckpointError, checkpoint_path, load_state, set_aside
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


def member(
    place: int,
    run: Run,
    data: Dataset,
    folder: Path | None = None,
    device: str = "cpu",
    restarted: Callable[[Run, str], None] = lambda run, reason: None,
) -> Member:
    """Return a run with its initial layers, or with the state of its checkpoint in `folder` if there is one.

    A checkpoint that cannot be used is set aside and reported to `restarted`; the run starts anew.
    """
    identity = run.identity(data)
    path = None if folder is None else checkpoint_path(folder, identity)
    if path is not None and path.exists():
        try:
            state = load_state(path, identity, run.architecture(data).widths, device)
            return Member(place, run, identity, state, zip(state.weights, state.biases, strict=True))
        except CheckpointError as error:
            restarted(run, f"{error}; it is now {set_aside(path).name}, and the run starts anew")
    return Member(place, run, identity, State([], []), first_layers(run, data, device))


def first_layers(run: Run, data: Dataset, device: str = "cpu") -> Iterator[Layer]:
    """Return an iterator over the initial weights and biases of each layer of a run; gains are solved for at once."""
    widths, activations = run.architecture(data)
    inputs = torch.tensor(data.train.inputs(np.arange(min(run.batch, len(data.train)))))
    gains = run.gains(widths)
    return initial_layers(run.weights, widths, activations, run.seed, gains=gains, inputs=inputs, device=device)

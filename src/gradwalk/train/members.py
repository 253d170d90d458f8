"""The members of a stack: runs with the parameters that they start or resume from."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from gradwalk.data import Dataset
from gradwalk.nets.initial import PEERS, initial_weights
from gradwalk.nets.peers import Layer, peer_layers
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
    return Member(place, run, identity, State([], []), _initial_layers(run, data, device))


def _initial_layers(run: Run, data: Dataset, device: str) -> Iterator[Layer]:
    """Return an iterator over the initial layers; gains are solved for before the first one is drawn."""
    widths, activations = run.architecture(data)
    if run.weights in PEERS:
        seen = torch.tensor(data.train.inputs(np.arange(min(run.batch, len(data.train)))))
        return peer_layers(run.weights, widths, activations, run.seed, seen, device)
    weights = initial_weights(widths, run.gains(widths), run.seed, run.weights, device)
    return ((weight, weight.new_zeros(weight.shape[1])) for weight in weights)

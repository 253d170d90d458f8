"""Checkpoints: the state of a run in one safetensors file, with everything but the tensors as JSON in its header.

A resumed run gives the same numbers as one that was never interrupted: the minibatches follow from the seed of the
data and the epoch, the learning rates from the epoch, the step number from epochs and steps, and the optimizer's state
is in the file. The file is written atomically.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from gradwalk.files import atomic
from gradwalk.train.state import Epoch, State

FORMAT = "2"
_FACTS = ("epochs", "steps", "clipped", "seconds", "diverged")


def checkpoint_path(folder: Path, identity: str) -> Path:
    """Return the path of a run's checkpoint."""
    return folder / f"{identity}.safetensors"


def save_state(path: Path, identity: str, state: State) -> None:
    """Write a checkpoint; an earlier one at that path is kept until the new one is complete."""
    facts = {name: getattr(state, name) for name in _FACTS}
    facts |= {"history": [asdict(epoch) for epoch in state.history], "slots": list(state.slots)}
    header = {"format": FORMAT, "run": identity, "state": json.dumps(facts)}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in _named(state)}
    try:
        with atomic(path) as partial:
            save_file(tensors, partial, metadata=header)
    except (OSError, SafetensorError) as error:
        raise OSError(f"checkpoint: {path} cannot be written ({error}); the previous one is kept") from None


def load_state(path: Path, identity: str, device: str = "cpu") -> State:
    """Return the state that was saved for this run; raise a ValueError for a corrupt file or that of another run."""
    try:
        with safe_open(path, framework="pt", device=device) as file:
            header = file.metadata() or {}
            if header.get("run") != identity:
                raise ValueError(f"checkpoint: {path} belongs to another run; remove it or choose another folder")
            facts = json.loads(header["state"])
            slots = {name: _numbered(file, f"slots.{name}") for name in facts.pop("slots")}
            weights, biases = _numbered(file, "weights"), _numbered(file, "biases")
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"checkpoint: {path} is corrupt ({error}); remove it to start the run again") from None
    history = [Epoch(**epoch) for epoch in facts.pop("history")]
    return State(weights, biases, slots, history=history, **facts)


def _named(state: State) -> Iterator[tuple[str, torch.Tensor]]:
    groups = {"weights": state.weights, "biases": state.biases}
    groups |= {f"slots.{name}": tensors for name, tensors in state.slots.items()}
    for name, tensors in groups.items():
        yield from ((f"{name}.{place}", tensor) for place, tensor in enumerate(tensors))


def _numbered(file: Any, name: str) -> list[torch.Tensor]:
    """Return the tensors `name.0`, `name.1` and so on, up to the first that is missing."""
    names = takewhile(set(file.keys()).__contains__, (f"{name}.{place}" for place in count()))
    return [file.get_tensor(each) for each in names]

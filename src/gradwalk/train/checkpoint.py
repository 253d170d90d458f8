"""Checkpoints: the state of a run in one safetensors file, with everything but the tensors as JSON in its header.

A resumed run gives the same numbers as one that was never interrupted: the minibatches follow from the seed of the
data and the epoch, the learning rates from the epoch, the step number from epochs and steps, and the optimizer's state
is in the file. The file is written atomically, and carries a digest of its content.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import count, pairwise, takewhile
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from gradwalk.files import atomic
from gradwalk.nets.digests import content_digest
from gradwalk.train.state import Epoch, State

FORMAT = "3"
DAMAGED = ".damaged"
_ENDING = ".safetensors"
_FACTS = ("epochs", "steps", "clipped", "seconds", "diverged")

Tensors = Mapping[str, torch.Tensor]


class CheckpointError(ValueError):
    """A checkpoint that cannot be used: damaged, of another run, or of another version of gradwalk."""


def checkpoint_path(folder: Path, identity: str) -> Path:
    """Return the path of a run's checkpoint."""
    return folder / f"{identity}{_ENDING}"


def begun(folder: Path) -> frozenset[str]:
    """Return the identities of the runs that have a checkpoint in a folder, which may be missing."""
    return frozenset(path.name.removesuffix(_ENDING) for path in folder.glob(f"*{_ENDING}"))


def remove_checkpoints(folder: Path, identities: Iterable[str]) -> None:
    """Remove the checkpoints of these runs, of which most may have none."""
    for identity in begun(folder).intersection(identities):
        checkpoint_path(folder, identity).unlink(missing_ok=True)


def save_state(path: Path, identity: str, state: State) -> None:
    """Write a checkpoint; an earlier one at that path is kept until the new one is complete.

    The folder must exist: one that was removed while a run trains is not created again.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"checkpoint: {path.parent} was removed while the run trained")
    facts = {name: getattr(state, name) for name in _FACTS}
    facts |= {"history": [asdict(epoch) for epoch in state.history], "slots": list(state.slots)}
    header = {"format": FORMAT, "run": identity, "state": json.dumps(facts)}
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in _named(state)}
    try:
        with atomic(path) as partial:
            save_file(tensors, partial, metadata=header | {"digest": content_digest(header, tensors)})
    except (OSError, SafetensorError) as error:
        raise OSError(f"checkpoint: {path} cannot be written ({error}); the previous one is kept") from None


def load_state(path: Path, identity: str, widths: Sequence[int] | None = None, device: str = "cpu") -> State:
    """Return the state that was saved for this run; raise a CheckpointError if the file is not what was written.

    widths: of the run's network, which the weights are compared with.
    """
    header, tensors = _read(path)
    version, run = header.get("format"), header.get("run")
    if version != FORMAT:
        raise CheckpointError(f"checkpoint: {path} has format {version}, but this gradwalk reads format {FORMAT}")
    if header.pop("digest", None) != content_digest(header, tensors):
        raise CheckpointError(f"checkpoint: {path} is damaged (its digest does not match its content)")
    if run != identity:
        raise CheckpointError(f"checkpoint: {path} belongs to another run ({run})")
    facts = json.loads(header["state"])
    moved = {name: tensor.to(device) for name, tensor in tensors.items()}
    slots = {name: _numbered(moved, f"slots.{name}") for name in facts.pop("slots")}
    history = [Epoch(**epoch) for epoch in facts.pop("history")]
    state = State(_numbered(moved, "weights"), _numbered(moved, "biases"), slots, history=history, **facts)
    if widths is not None and [tuple(weight.shape) for weight in state.weights] != list(pairwise(widths)):
        raise CheckpointError(f"checkpoint: {path} holds a network of another architecture")
    return state


def set_aside(path: Path) -> Path:
    """Rename a checkpoint that cannot be used, and return its new path."""
    return path.replace(path.with_name(path.name + DAMAGED))


def _read(path: Path) -> tuple[dict[str, str], dict[str, torch.Tensor]]:
    """Return the header and the tensors of a file, which are read into memory before they are checked."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            return dict(file.metadata() or {}), tensors
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:
        raise CheckpointError(f"checkpoint: {path} is damaged ({error})") from None


def _named(state: State) -> Iterator[tuple[str, torch.Tensor]]:
    groups = {"weights": state.weights, "biases": state.biases}
    groups |= {f"slots.{name}": tensors for name, tensors in state.slots.items()}
    for name, tensors in groups.items():
        yield from ((f"{name}.{place}", tensor) for place, tensor in enumerate(tensors))


def _numbered(tensors: Tensors, name: str) -> list[torch.Tensor]:
    """Return the tensors `name.0`, `name.1` and so on, up to the first that is missing."""
    return [tensors[each] for each in takewhile(tensors.__contains__, (f"{name}.{place}" for place in count()))]

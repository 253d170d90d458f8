"""The state of a run in a file: weights and biases as safetensors, all else as JSON in its header, written atomically.

From it training goes on to the same numbers as if it had never stopped: the minibatches follow from the seed of the
data and the epoch, the learning rates from the epoch, and plain gradient descent has no other memory.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from gradwalk.files import atomic

FORMAT = "1"


@dataclass(frozen=True)
class Epoch:
    """What is measured at the end of an epoch, on the whole of each split.

    mistakes: wrongly classified examples, 0 in reconstruction, where the loss is the reconstruction error.
    clipped: steps of this epoch in which the gradient was shortened. seconds: of the stack it trained in.
    """

    epoch: int
    train_loss: float
    train_mistakes: int
    test_loss: float
    test_mistakes: int
    clipped: int
    seconds: float

    @property
    def row(self) -> tuple[float, ...]:
        """The numbers, in this order."""
        return tuple(vars(self).values())  # dataclasses.astuple takes 25 times as long


@dataclass
class State:
    """Where a run stands: epochs done, steps of the next one, what was measured so far, its weights.

    clipped: steps of this epoch with a shortened gradient. seconds: of all epochs. diverged: the epoch it happened in.
    """

    weights: list[torch.Tensor]
    biases: list[torch.Tensor]
    epochs: int = 0
    steps: int = 0
    clipped: int = 0
    seconds: float = 0.0
    diverged: int | None = None
    history: list[Epoch] = field(default_factory=list)


def checkpoint_path(folder: Path, identity: str) -> Path:
    """Return where the checkpoint of a run lies."""
    return folder / f"{identity}.safetensors"


def save_state(path: Path, identity: str, state: State) -> None:
    """Write the state there; what stood there before stays until the new one is complete."""
    tensors = {f"weights.{place}": each for place, each in enumerate(state.weights)}
    tensors |= {f"biases.{place}": each for place, each in enumerate(state.biases)}
    facts = {name: getattr(state, name) for name in ("epochs", "steps", "clipped", "seconds", "diverged")}
    facts["history"] = [asdict(each) for each in state.history]
    header = {"format": FORMAT, "run": identity, "state": json.dumps(facts)}
    tensors = {name: each.detach().cpu().contiguous() for name, each in tensors.items()}
    try:
        with atomic(path) as partial:
            save_file(tensors, partial, metadata=header)
    except (OSError, SafetensorError) as error:
        raise OSError(f"checkpoint: {path} cannot be written ({error}); the last one before it is kept") from None


def load_state(path: Path, identity: str, device: str = "cpu") -> State:
    """Return the state that was saved there for this run; anything else is named and refused."""
    try:
        with safe_open(path, framework="pt", device=device) as file:
            header = file.metadata() or {}
            if header.get("run") != identity:
                raise ValueError(f"checkpoint: {path} is of another run; remove it or choose another folder")
            facts = json.loads(header["state"])
            layers = range(len(file.keys()) // 2)
            weights = [file.get_tensor(f"weights.{place}") for place in layers]
            biases = [file.get_tensor(f"biases.{place}") for place in layers]
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"checkpoint: {path} is damaged ({error}); remove it to begin anew") from None
    history = [Epoch(**each) for each in facts.pop("history")]
    return State(weights, biases, history=history, **facts)

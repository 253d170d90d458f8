"""The state of a run: where it stands, what was measured so far, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gradwalk.train.run import Run

if TYPE_CHECKING:
    import torch

    from gradwalk.nets.updates import Slots


@dataclass(frozen=True)
class Epoch:
    """What is measured at the end of an epoch, on the whole of each split.

    mistakes: misclassified examples, 0 in reconstruction, where the loss is the reconstruction error.
    clipped: steps since the previous measurement in which the gradient was clipped. seconds: since then, of the stack
    that the run trained in.
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
        """The values in the order of the fields."""
        return tuple(vars(self).values())  # dataclasses.astuple takes 25 times as long


@dataclass
class State:
    """Where a run stands: its parameters, the epochs it has finished, and the steps it has taken of the next one.

    slots: the optimizer's state, empty before the first step, after the last one and for an optimizer without any.
    clipped: steps with a clipped gradient since the last measurement. seconds: of all epochs. diverged: the epoch in
    which the loss ceased to be finite. history: the epochs that were measured.
    """

    weights: list[torch.Tensor]
    biases: list[torch.Tensor]
    slots: Slots = field(default_factory=dict)
    epochs: int = 0
    steps: int = 0
    clipped: int = 0
    seconds: float = 0.0
    diverged: int | None = None
    history: list[Epoch] = field(default_factory=list)


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    run: Run
    state: State

    @property
    def epochs(self) -> tuple[Epoch, ...]:
        """The measurements, one per epoch that was measured."""
        return tuple(self.state.history)

    @property
    def diverged(self) -> int | None:
        """The epoch in which the loss ceased to be finite, or None."""
        return self.state.diverged

    @property
    def last(self) -> Epoch | None:
        """The last measurements."""
        return self.state.history[-1] if self.state.history else None

"""What an initialiser is given, and what it draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from gradwalk.nets.gains import Gains

if TYPE_CHECKING:
    import torch

Layer: TypeAlias = "tuple[torch.Tensor, torch.Tensor]"  # weights (in, out), biases (out,)


@dataclass(frozen=True)
class Blueprint:
    """A network before it has weights.

    widths: input first. activations: one per layer of weights, the last one "linear". generator: the only source of
    random numbers, on the CPU. gains: None for an initialiser that has a scale of its own. inputs: the first minibatch
    of examples (rows, in), for initialisers that measure; None where there are no data.
    """

    widths: tuple[int, ...]
    activations: tuple[str, ...]
    generator: torch.Generator
    gains: Gains | None = None
    inputs: torch.Tensor | None = None

    @property
    def shapes(self) -> Iterator[tuple[int, int]]:
        """The fan-in and fan-out of each layer, input first."""
        return pairwise(self.widths)

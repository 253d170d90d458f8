"""What is known of a tensor on its way through a network, and what the numbers of a layer depend on."""

from enum import Enum
from typing import NamedTuple

from gradwalk.activations import Activation, activation

LINEAR = activation("linear")


class Note(Enum):
    """Something about a layer that its numbers depend on; `outside`: a chain's theory does not predict its drift."""

    RESIDUAL = "residual", True
    NORM = "norm", True
    ATTENTION = "attention", True
    RECURRENT = "recurrent", True
    REPEATED = "called more than once", True
    GATED = "gated product", True
    MAX_POOLING = "max pooling: not counted", False
    RESAMPLED = "resampled: not counted", False
    SCALED = "scaled by an unknown factor: not counted", False
    DROPOUT = "dropout of channels, or before the activation: not counted", False
    UNTRACED = "path not traced: order of registration", False
    GIVEN = "activation as given, not recognised", False

    def __init__(self, text: str, outside: bool) -> None:
        self.text = f"{text}: outside the theory of chains" if outside else text
        self.outside = outside

    def __str__(self) -> str:
        return self.text


class Signal(NamedTuple):
    """What is known of a tensor.

    Attributes:
        activation: the one whose output it is, None where that is unknown for the reason in `why`.
        position: the number of weight layers on the longest path to it.
        notes: what it went through.
        sources: the weight layers whose outputs it is made of, with no other weight layer between.
        why: the reason why its activation is unknown.
        channels: their number, 0 where unknown.
        node: its place in the graph.
        dropout: the share of units that dropout sets to zero, after the activation.
        log_factor: ln of the factor by which average pooling and constants multiply the norm of a gradient on its way
            back.
    """

    activation: Activation | None = LINEAR
    position: int = 0
    notes: frozenset[Note] = frozenset()
    sources: frozenset[str] = frozenset()
    why: str = ""
    channels: int = 0
    node: int = 0
    dropout: float = 0.0
    log_factor: float = 0.0

    def noted(self, note: Note) -> "Signal":
        """Return the signal with one more note."""
        return self._replace(notes=self.notes | {note})

    def unknown(self, why: str) -> "Signal":
        """Return the signal where the activation is not known any more."""
        return self._replace(activation=None, why=why, channels=0)

    def activated(self, activation: Activation, node: int) -> "Signal":
        """Return the signal after an activation, the node; after two in a row, nothing is known."""
        before = self.activation
        if before is None or before.name != "linear":
            return self.unknown(self.why or f"it reads {activation} of {before}")._replace(node=node)
        notes = self.notes | {Note.DROPOUT} if self.dropout else self.notes
        return Signal(activation, self.position, notes, self.sources, "", self.channels, node, 0.0, self.log_factor)

    def dropped(self, rate: float) -> "Signal":
        """Return the signal after dropout of single units."""
        return self._replace(dropout=1 - (1 - self.dropout) * (1 - rate)) if 0 < rate < 1 else self


class Merge(NamedTuple):
    """A place where signals come together.

    Attributes:
        operation: its name.
        note: why that matters.
        signals: what each of them was.
    """

    operation: str
    note: Note
    signals: tuple[Signal, ...]

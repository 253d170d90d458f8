"""The dataflow of a network: what each weight layer reads, and where its output goes."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from typing import NamedTuple

from gradwalk.activations import Activation, activation
from gradwalk.theory import kind

OUTPUT = -1  # stands for the output of the network among the destinations of a node
LINEAR = activation("linear")


class Op(Enum):
    """What a node does to the signals that it reads."""

    INPUT = auto()
    WEIGHTS = auto()
    ACTIVATION = auto()
    NORM = auto()
    DROPOUT = auto()
    PASSING = auto()
    UNKNOWN = auto()


_THROUGH = (Op.ACTIVATION, Op.DROPOUT, Op.PASSING)


@dataclass(frozen=True)
class Node:
    """One operation of a network.

    reads: the places of the nodes whose output it reads, all before its own. label: the name of a weight layer, or what
    the operation is in words. amount: the rate of dropout; for what passes the signal on, ln of the factor by which it
    multiplies |delta| on the way back; None where that is not known.
    """

    op: Op
    reads: tuple[int, ...] = ()
    label: str = ""
    activation: Activation | None = None
    amount: float | None = 0.0


class Reading(NamedTuple):
    """What a weight layer reads: its source, and what is between.

    activation: None where there are several. dropout: the rate. log_factor: that of all between on |delta|. notes: what
    is not counted in it.
    """

    source: int
    activation: Activation | None
    dropout: float
    log_factor: float
    notes: tuple[str, ...]


class Dataflow:
    """The nodes of a network in the order of the forward pass, and those whose output leaves it."""

    def __init__(self, nodes: Sequence[Node], outputs: Sequence[int]) -> None:
        self.nodes, self.outputs = nodes, frozenset(outputs)
        self.readers: list[list[int]] = [[] for _ in nodes]
        for place, node in enumerate(nodes):
            for read in node.reads:
                self.readers[read].append(place)
        self.places = {node.label: place for place, node in enumerate(nodes) if node.op is Op.WEIGHTS}
        self.destinations = cache(self._destinations)
        self._leads_to_weights = cache(self._find_weights)

    def reading(self, name: str) -> Reading:
        """Return what a weight layer reads."""
        found: list[Activation] = []
        kept, log_factor, notes = 1.0, 0.0, dict[str, None]()
        place = self.nodes[self.places[name]].reads[0]
        while (node := self.nodes[place]).op in _THROUGH:
            if node.op is Op.ACTIVATION and node.activation is not None:
                found.append(node.activation)
            elif node.amount is None or (node.op is Op.DROPOUT and found and kind(found[-1]) != "neutral"):
                notes[f"{node.label} before it: not counted"] = None
            elif node.op is Op.DROPOUT:
                kept *= 1 - node.amount
            else:
                log_factor += node.amount
            place = node.reads[0]
        bent = [f for f in found if f != LINEAR] or [LINEAR]
        return Reading(place, bent[0] if len(bent) == 1 else None, 1 - kept, log_factor, tuple(notes))

    def _destinations(self, place: int) -> tuple[tuple[int, bool], ...]:
        """Return the nodes that a node's output enters through nothing but activations, dropout and the like.

        OUTPUT stands for the output of the network, and for what no weight layer comes after, such as a softmax. The
        flag: whether all activations between are homogeneous.
        """
        found: dict[tuple[int, bool], None] = {}
        if place in self.outputs or not self.readers[place]:
            found[OUTPUT, True] = None
        for reader in self.readers[place]:
            node = self.nodes[reader]
            if node.op in _THROUGH:
                plain = node.activation is None or kind(node.activation) == "neutral"
                found |= {(end, plain and rest): None for end, rest in self.destinations(reader)}
            elif node.op is Op.UNKNOWN and not self._leads_to_weights(reader):
                found[OUTPUT, True] = None
            else:
                found[reader, True] = None
        return tuple(found)

    def _find_weights(self, place: int) -> bool:
        """Return whether a weight layer comes after a node."""
        above = self.readers[place]
        return any(self.nodes[each].op is Op.WEIGHTS or self._leads_to_weights(each) for each in above)

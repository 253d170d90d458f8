"""The dataflow of a model as a list of nodes, each after the nodes that it reads."""

import re
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import NamedTuple

from gradwalk.activations import Activation


class Op(Enum):
    """What a node does to the signals that it reads. Reshapes and the like have no node."""

    INPUT = auto()
    LOOKUP = auto()  # an embedding
    WEIGHTS = auto()
    ACTIVATION = auto()
    NORM = auto()
    DROPOUT = auto()
    POOLING = auto()
    SCALE = auto()
    SUM = auto()
    CONCAT = auto()
    PRODUCT = auto()  # of two signals
    MIXING = auto()  # attention, recurrence, a product of two matrices of signals
    UNKNOWN = auto()


WORKING = frozenset({Op.WEIGHTS, Op.MIXING})
RESETS = frozenset({Op.NORM, Op.SUM, Op.PRODUCT, Op.MIXING, Op.UNKNOWN})  # what a plain chain has none of
PASSING = frozenset({Op.ACTIVATION, Op.DROPOUT, Op.POOLING, Op.SCALE, Op.CONCAT})  # a weight layer reads through them


# What tells something of a signal or has its shape, rather than being one.
_LOOKS = re.compile(
    r"(abs|all|amax|amin|any|is(finite|inf|nan)|item|max|mean|median|min|norm|quantile|std|sum|var|vector_norm"
    r"|(empty|full|ones|rand|randn|zeros)_like|new_(empty|full|ones|zeros))\(\)"
)


class Node(NamedTuple):
    """One operation: the nodes that it reads, and the name of its module or function.

    amount: the factor of a SCALE, None where it is not known.
    """

    op: Op
    reads: tuple[int, ...]
    name: str = ""
    activation: Activation | None = None
    amount: float | None = None


def consumers(nodes: Sequence[Node]) -> list[list[int]]:
    """Return, per node, the nodes that read it."""
    readers: list[list[int]] = [[] for _ in nodes]
    for place, node in enumerate(nodes):
        for each in dict.fromkeys(node.reads):
            readers[each].append(place)
    return readers


def without_looks(nodes: Sequence[Node], outputs: Iterable[int]) -> list[Node]:
    """Return the nodes, of which those that only look at a signal read nothing any more.

    `h.norm()` to log it or `torch.isfinite(h).all()` have a result that leads neither to an output nor to a weight
    layer. Of other functions, a result that seems to lead nowhere may have been lost sight of.

    >>> without_looks([Node(Op.INPUT, ()), Node(Op.WEIGHTS, (0,)), Node(Op.UNKNOWN, (1,), "norm()")], [1])[2].reads
    ()
    """
    needed, cut, readers = set(outputs), set[int](), consumers(nodes)
    for place in reversed(range(len(nodes))):
        node = nodes[place]
        if place in needed or node.op in WORKING:
            needed.update((place, *node.reads))
        elif (_LOOKS.fullmatch(node.name) or node.op in PASSING) and cut.issuperset(readers[place]):
            cut.add(place)
    return [Node(Op.INPUT, ()) if place in cut else node for place, node in enumerate(nodes)]


def ancestors(nodes: Sequence[Node]) -> list[int]:
    """Return, per node, the set of itself and all nodes that it depends on, as the bits of an integer.

    >>> ancestors([Node(Op.INPUT, ()), Node(Op.WEIGHTS, (0,)), Node(Op.SUM, (0, 1))])
    [1, 3, 7]
    """
    masks: list[int] = []
    for place, node in enumerate(nodes):
        mask = 1 << place
        for each in node.reads:
            mask |= masks[each]
        masks.append(mask)
    return masks

"""The shape of a model's dataflow: its sums, which of them are residual, and where the output of each layer goes."""

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from functools import cache
from typing import NamedTuple

from gradwalk.activations import Activation
from gradwalk.torch.graph import PASSING, WORKING, Node, Op, ancestors, consumers

OUTPUT = -1  # stands for the output of the model among the destinations of a node


class SumKind(Enum):
    """How the terms of a sum relate to each other."""

    RESIDUAL = auto()  # one term is the stream, the others read it through weights
    PARALLEL = auto()  # all terms read the same signal through weights
    UNRELATED = auto()  # the terms have no common source, or none of them has weights


class Ends(NamedTuple):
    """What the terms of a sum end in.

    layers: the nodes of weight layers that enter it through nothing but activations, dropout and the like. normed:
    whether some term ends in a norm. scaled: whether some term is multiplied by a factor. opaque: whether some term
    ends in something of unknown law.
    """

    layers: tuple[int, ...]
    normed: bool
    scaled: bool
    opaque: bool


class Sum(NamedTuple):
    """A sum of signals.

    stream: the term that is the skip connection, None unless the sum is residual. branches: the other terms. inside:
    all weight layers between the fork and the sum. blocks: the number of branches that are added to the same stream, or
    the number of parallel terms.
    """

    place: int
    kind: SumKind
    stream: int | None
    branches: tuple[int, ...]
    inside: tuple[int, ...]
    ends: Ends
    blocks: int = 1


class Structure:
    """The sums of a graph and the destinations of its nodes."""

    def __init__(self, nodes: Sequence[Node], outputs: Sequence[int]) -> None:
        self.nodes, self.readers = nodes, consumers(nodes)
        self.outputs = frozenset(outputs)
        self._masks = ancestors(nodes) if any(node.op is Op.SUM for node in nodes) else []
        self.sums: dict[int, Sum] = {}
        for place, node in enumerate(nodes):
            if node.op is Op.SUM:
                self.sums[place] = self._sum(place)
        self._count_blocks()
        self.destinations = cache(self._destinations)

    def _terms(self, place: int) -> Iterator[int]:
        """Yield the terms of a sum; a sum that only this one reads and that is not residual is taken apart."""
        for term in self.nodes[place].reads:
            inner = self.sums.get(term)
            if inner is not None and inner.kind is not SumKind.RESIDUAL and self.readers[term] == [place]:
                yield from self._terms(term)
            else:
                yield term

    def _sum(self, place: int) -> Sum:
        terms = tuple(dict.fromkeys(self._terms(place)))
        common = -1
        for term in terms:
            common &= self._masks[term]
        if common == 0 or len(terms) < 2:
            return Sum(place, SumKind.UNRELATED, None, terms, (), self._ends(terms))
        fork = common.bit_length() - 1
        regions = {term: self._between(fork, term) for term in terms}
        busy = tuple(term for term in terms if any(self.nodes[each].op in WORKING for each in regions[term]))
        idle = [term for term in terms if term not in busy]
        inside = sorted({n for term in busy for n in regions[term] if self.nodes[n].op is Op.WEIGHTS})
        if not busy:
            return Sum(place, SumKind.UNRELATED, None, terms, (), self._ends(terms))
        if not idle:
            return Sum(place, SumKind.PARALLEL, None, busy, tuple(inside), self._ends(busy), len(busy))
        return Sum(place, SumKind.RESIDUAL, idle[0], busy, tuple(inside), self._ends(busy), len(busy))

    def _between(self, fork: int, term: int) -> list[int]:
        """Return the nodes on the paths from a fork to a term, without the fork."""
        below = self._masks[term] & ~((1 << (fork + 1)) - 1)
        return [n for n in range(fork + 1, below.bit_length()) if below >> n & 1 and self._masks[n] >> fork & 1]

    def _ends(self, terms: Sequence[int]) -> Ends:
        layers: dict[int, None] = {}
        normed = scaled = opaque = False
        seen: set[int] = set()
        waiting = list(terms)
        while waiting:
            place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            node = self.nodes[place]
            if node.op is Op.WEIGHTS:
                layers[place] = None
            elif node.op in PASSING or (node.op is Op.SUM and place in self.sums):
                scaled |= node.op is Op.SCALE and node.amount != 1
                waiting += node.reads
            normed |= node.op is Op.NORM
            opaque |= node.op in (Op.MIXING, Op.PRODUCT, Op.UNKNOWN)
        return Ends(tuple(sorted(layers)), normed, scaled, opaque)

    def _count_blocks(self) -> None:
        """Set the number of branches on the stream of each residual sum, by the longest path along skips."""
        before, after = [0] * len(self.nodes), [0] * len(self.nodes)
        for place, node in enumerate(self.nodes):
            each = self.sums.get(place)
            if each is not None and each.stream is not None:
                before[place] = before[each.stream] + len(each.branches)
            else:
                before[place] = max((before[read] for read in node.reads), default=0)
        for place in reversed(range(len(self.nodes))):
            for reader in self.readers[place]:
                each = self.sums.get(reader)
                step = len(each.branches) if each is not None and each.stream is not None else 0
                after[place] = max(after[place], after[reader] + step)
        for place, each in self.sums.items():
            if each.kind is SumKind.RESIDUAL:
                self.sums[place] = each._replace(blocks=before[place] + after[place])

    def _destinations(self, place: int) -> tuple[int, ...]:
        """Return the nodes that a node's output enters through nothing but activations and the like.

        OUTPUT is among them if it leaves the model.
        """
        found: dict[int, None] = {OUTPUT: None} if place in self.outputs else {}
        for reader in self.readers[place]:
            through = self.nodes[reader].op in PASSING
            found |= dict.fromkeys(self.destinations(reader) if through else (reader,))
        return tuple(found)

    def read_by(self, place: int) -> int:
        """Return the node whose output a node reads, behind dropout."""
        read = self.nodes[place].reads[0]
        return self.read_by(read) if self.nodes[read].op is Op.DROPOUT else read

    def sources(self, place: int) -> set[int]:
        """Return the nodes that a node reads through nothing but activations and the like."""
        found: set[int] = set()
        for read in self.nodes[place].reads:
            found |= self.sources(read) if self.nodes[read].op in PASSING else {read}
        return found

    def gate(self, place: int) -> Activation | None:
        """Return the activation f of a product f(a) b of two linear images a and b of normed signals, None for others.

        >>> from gradwalk.activations import activation
        >>> reads = [(), (0,), (1,), (2,), (2, 3)]
        >>> ops = [Op.INPUT, Op.NORM, Op.WEIGHTS, Op.ACTIVATION, Op.PRODUCT]
        >>> nodes = [Node(*each, activation=activation("silu")) for each in zip(ops, reads)]
        >>> Structure(nodes, [4]).gate(4).name
        'silu'
        """
        node = self.nodes[place]
        plain = [n for n in node.reads if self.nodes[n].op is Op.WEIGHTS]
        bent = [n for n in node.reads if self.nodes[n].op is Op.ACTIVATION]
        if node.op is not Op.PRODUCT or len(node.reads) != 2 or len(plain) != 1 or len(bent) != 1:
            return None
        layers = [plain[0], self.nodes[bent[0]].reads[0]]
        normed = [self.nodes[n].op is Op.WEIGHTS and self.nodes[self.read_by(n)].op is Op.NORM for n in layers]
        return self.nodes[bent[0]].activation if all(normed) else None

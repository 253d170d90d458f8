"""The stream of a network: the places that all paths from the input to the loss lead through, and its branches."""

import math
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from itertools import takewhile
from typing import NamedTuple

import numpy as np
from torch import Tensor

from gradwalk.activations import Array
from gradwalk.torch.graph import Node, Op, ancestors, consumers
from gradwalk.torch.measurement import Measured, over_examples
from gradwalk.torch.norms import doubled, example_norms
from gradwalk.torch.structure import OUTPUT, Structure, Sum, SumKind

_ENTRIES = (Op.INPUT, Op.LOOKUP)
_BENT = frozenset({Op.SUM, Op.NORM, Op.CONCAT, Op.PRODUCT, Op.MIXING})


class StreamPoint(NamedTuple):
    """A place on the stream: the layer, norm or sum, ln |delta| there relative to the last place, and ln of its rms."""

    name: str
    log_norm: float
    forward: float


class Block(NamedTuple):
    """A residual branch: ln of its size relative to the stream that it is added to, forward and back."""

    name: str
    forward: float
    backward: float


class Stream(NamedTuple):
    """The stream from the input to the loss, its branches, and ln |delta| at its last place, one per example."""

    points: tuple[StreamPoint, ...]
    blocks: tuple[Block, ...]
    reference: Array | None


def is_chain(nodes: Sequence[Node]) -> bool:
    """Return whether a network is one path of weight layers, with nothing but activations and the like between."""
    readers = consumers(nodes)
    return not any(node.op in _BENT for node in nodes) and all(len(each) <= 1 for each in readers)


def along(measured: Measured, nodes: Sequence[Node], outputs: Collection[int]) -> Stream:
    """Return the stream of a network that is no chain.

    A layer or a sum whose output goes straight into a norm has no scale of its own, so that the gradient is taken
    behind the norm instead.
    """
    structure = Structure(nodes, list(outputs))
    logs = _logs(measured)
    places = _stream_places(nodes, outputs, {n for n in logs if not _is_free(structure, n)})
    blocks = tuple(
        _block(each, structure, measured) for each in structure.sums.values() if _is_measured(each, measured)
    )
    if len(places) < 2:
        return Stream((), blocks, None)
    reference = logs[places[-1]]
    kept = reference > -math.inf
    walk = over_examples(np.stack([logs[n][kept] - reference[kept] for n in places], axis=1), np.mean)
    points = [
        StreamPoint(_name(nodes[n], structure.sums.get(n), nodes), float(log_norm), _log_rms(measured, n))
        for n, log_norm in zip(places, walk, strict=True)
    ]
    return Stream(tuple(points), blocks, reference)


def _stream_places(nodes: Sequence[Node], outputs: Collection[int], counted: Collection[int]) -> list[int]:
    """Return the counted nodes of the stream: behind the main input if there are two or more, else the longest row."""
    after = postdominators(nodes, outputs)
    rows = {n: _row(n, after, counted) for n, node in enumerate(nodes) if node.op in _ENTRIES and n in after}
    layers = [mask for mask, node in zip(ancestors(nodes), nodes, strict=True) if node.op is Op.WEIGHTS]
    main = max(rows, key=lambda n: sum(mask >> n & 1 for mask in layers), default=None)
    if main is not None and len(rows[main]) > 1:
        return rows[main]
    return max((_row(n, after, counted) for n in after), key=len, default=[])


def _row(place: int, after: Mapping[int, int | None], counted: Collection[int]) -> list[int]:
    """Return a node, if it is counted, and the counted ones that all paths from it lead through."""
    row = []
    following: int | None = place
    while following is not None:
        row += [following] if following in counted else []
        following = after[following]
    return row


def postdominators(nodes: Sequence[Node], outputs: Collection[int]) -> dict[int, int | None]:
    """Return, per node on the way to an output, the next one that all paths from it lead through; None for the output.

    >>> postdominators([Node(Op.INPUT, ()), Node(Op.WEIGHTS, (0,)), Node(Op.SUM, (0, 1))], [2])
    {2: None, 1: 2, 0: 2}
    """
    readers = consumers(nodes)
    after: dict[int, int | None] = {}
    depth: dict[int | None, int] = {None: 0}
    for place in reversed(range(len(nodes))):
        ways: list[int | None] = [reader for reader in readers[place] if reader in after]
        if place in outputs:
            ways.append(None)
        if ways:
            after[place] = reduce(lambda one, other: _meeting(one, other, after, depth), ways)
            depth[place] = depth[after[place]] + 1
    return after


def _meeting(
    one: int | None, other: int | None, after: Mapping[int, int | None], depth: Mapping[int | None, int]
) -> int | None:
    """Return the first node that lies behind both."""
    while one != other:
        if depth[one] >= depth[other] and one is not None:
            one = after[one]
        elif other is not None:
            other = after[other]
    return one


def _logs(measured: Measured) -> dict[int, Array]:
    """Return ln |delta| per example, by node."""
    logs = {call.node: measured.logs[:, n] for n, call in enumerate(measured.calls) if call.node is not None}
    for node, (_, delta) in measured.stations.items():
        with np.errstate(divide="ignore"):
            logs[node] = np.log(example_norms(delta, measured.examples).cpu().numpy())
    return logs


def _is_free(structure: Structure, place: int) -> bool:
    ends = structure.destinations(place)
    return bool(ends) and all(end != OUTPUT and structure.nodes[end].op is Op.NORM for end in ends)


def _is_measured(each: Sum, measured: Measured) -> bool:
    return each.kind is SumKind.RESIDUAL and each.place in measured.stations


def _block(each: Sum, structure: Structure, measured: Measured) -> Block:
    assert each.stream is not None
    stream, branch = measured.sizes.get(each.stream, 0.0), sum(measured.sizes.get(n, 0.0) for n in each.branches)
    forward = math.log(branch / stream) / 2 if stream > 0 < branch else math.nan
    return Block(_name(structure.nodes[each.place], each, structure.nodes), forward, _returned(each, measured))


def _returned(each: Sum, measured: Measured) -> float:
    """Return ln of the gradient that comes back through the branches, relative to that of the skip connection."""
    below, above = _delta(each.stream, measured), _delta(each.place, measured)
    if below is None or above is None or below.shape != above.shape:
        return math.nan
    skip, whole = doubled(above), doubled(below)
    sizes = float((whole - skip).norm()), float(skip.norm())
    return math.log(sizes[0] / sizes[1]) if min(sizes) > 0 else -math.inf


def _delta(node: int | None, measured: Measured) -> Tensor | None:
    if node in measured.stations:
        return measured.stations[node][1]
    return next((measured.deltas[n] for n, call in enumerate(measured.calls) if call.node == node), None)


def _log_rms(measured: Measured, node: int) -> float:
    size = measured.sizes.get(node, 0.0)
    return math.log(size) / 2 if size > 0 else -math.inf


def _name(node: Node, each: Sum | None, nodes: Sequence[Node]) -> str:
    """Return the name of a place on the stream; that of a sum is what the layers of its branches share."""
    if each is None or not each.inside:
        return node.name or node.op.name.lower()
    names = [nodes[n].name.split(".") for n in each.inside]
    shared = takewhile(lambda parts: len(set(parts)) == 1, zip(*names, strict=False))
    return f"{node.name} {'.'.join(parts[0] for parts in shared) or nodes[each.inside[0]].name}"

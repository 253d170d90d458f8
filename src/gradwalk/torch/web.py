"""How the places where a gradient is measured hang together: which of them each one's gradient comes from."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from gradwalk.torch.graph import Node, Op, ancestors

_ELEMENTWISE = frozenset({Op.ACTIVATION, Op.DROPOUT, Op.SCALE})


class Sources(NamedTuple):
    """What the gradient at a point comes from.

    layers: the weight layers that read it, with nothing but activations, norms and the like between. sums: the sums
    that it enters in the same way. ends: whether it reaches the output so. elementwise: whether nothing but
    activations, dropout and constants lie between. unclear: why the gradient's law is not known, "" if it is.
    """

    layers: tuple[int, ...] = ()
    sums: tuple[int, ...] = ()
    ends: bool = False
    elementwise: bool = True
    unclear: str = ""

    @property
    def parent(self) -> int | None:
        """The point that its step starts from, None if the gradient comes from the output alone."""
        return self.sums[0] if self.sums else self.layers[0] if self.layers else None


class _Behind(NamedTuple):
    """The points that a node reads through nothing but activations and the like, and what lies between."""

    points: frozenset[int]
    elementwise: bool
    unclear: str


def sources(nodes: Sequence[Node], points: Collection[int], ends: Collection[int]) -> dict[int, Sources]:
    """Return where the gradient of each point comes from; points are the nodes at which it is measured.

    >>> sources([Node(Op.INPUT, ()), Node(Op.WEIGHTS, (0,)), Node(Op.WEIGHTS, (1,))], [1, 2], [2])[1].layers
    (2,)
    """
    behind: list[_Behind] = []
    web = dict.fromkeys(points, Sources())
    masks = ancestors(nodes) if any(len(node.reads) > 1 for node in nodes) else []
    for place, node in enumerate(nodes):
        read = _together([behind[each] for each in node.reads])
        if place in web:
            _attach(web, place, node, read, masks)
        behind.append(_Behind(frozenset({place}), True, "") if place in web else _through(node, read))
    for end in ends:
        for point in behind[end].points:
            web[point] = web[point]._replace(ends=True)
    return web


def _together(each: Sequence[_Behind]) -> _Behind:
    if len(each) == 1:
        return each[0]
    points = frozenset[int]().union(*(one.points for one in each))
    return _Behind(points, all(one.elementwise for one in each), next((one.unclear for one in each if one.unclear), ""))


def _through(node: Node, read: _Behind) -> _Behind:
    unclear = read.unclear or _opaque(node)
    return _Behind(read.points, read.elementwise and node.op in _ELEMENTWISE, unclear)


def _opaque(node: Node) -> str:
    """Return why a node hides weights of its own, "" if it does not."""
    is_module = node.op in (Op.MIXING, Op.UNKNOWN) and not node.name.endswith("()")
    if is_module or (node.op is Op.MIXING and len(set(node.reads)) == 1):
        return f"the weights inside {node.name} are not followed"
    return ""


def _attach(web: dict[int, Sources], place: int, node: Node, read: _Behind, masks: Sequence[int]) -> None:
    """Add a point to the sources of those that it reads."""
    related = len(read.points) > 1 and any(
        one != other and masks[one] >> other & 1 for one in read.points for other in read.points
    )
    is_layer = node.op is Op.WEIGHTS
    unclear = read.unclear or (
        f"{node.name} reads it directly and through other layers" if related and is_layer else ""
    )
    for point in read.points:
        old = web[point]
        web[point] = Sources(
            (*old.layers, place) if is_layer else old.layers,
            old.sums if is_layer else (*old.sums, place),
            old.ends,
            old.elementwise and read.elementwise and len(read.points) == 1,
            old.unclear or unclear,
        )

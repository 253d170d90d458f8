"""How many bytes a stack takes, known before it is allocated, and without torch."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from gradwalk import checks
from gradwalk.activations import Activation, activation
from gradwalk.nets.optimizers import parse_optimizer
from gradwalk.nets.widths import parameter_count

_SINGLE = 4  # bytes
_ALIGNMENT = 16  # numbers in single precision: 64 bytes
_FROM_OUTPUT = ("linear", "relu", "tanh")  # families whose f' follows from f(a) in `gradwalk.nets.pointwise`
PLAN_BYTES = (
    24_000  # bytes per layer for the planned operations of all passes, of full and of partial minibatches: measured
)

_BLOCK_FLOPS = (
    2.5e7  # of the products that compute the gradients of a block of layers: measured, see docs/performance.md
)
_UPDATED = 65_536  # numbers of the layers that are updated together: measured, see docs/performance.md
_EVALUATED = 65_536  # numbers of a layer's outputs that are evaluated at a time: they stay in the cache


def evaluated_rows(widths: Sequence[int], batch: int) -> int:
    """Return how many examples are evaluated at a time: in narrow layers more than the minibatch of a step.

    There the products of 100 rows take less time than the calls around them. It is 1, 2, 5, 10, 20 or 50 minibatches,
    so that most data sets are whole multiples of it, and does not depend on the number of networks.

    >>> evaluated_rows((784, 64, 64, 10), 100), evaluated_rows((784, 249, 10), 100)
    (1000, 200)
    """
    return next((batch * k for k in (50, 20, 10, 5, 2) if batch * k * max(widths[1:]) <= _EVALUATED), batch)


def padded(size: int) -> int:
    """Return the size rounded up to whole multiples of 64 bytes.

    >>> padded(100)
    112
    """
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def gradient_blocks(widths: Sequence[int], networks: int, batch: int) -> list[range]:
    """Return the layers in blocks of one shape whose gradients are computed together, the last layers first.

    In narrow layers a block has many of them, since the call would otherwise take as long as the product. The first
    layer, whose inputs lie elsewhere, is a block of its own.

    >>> gradient_blocks((8, 1000, 1000, 1000, 1000, 2), 1, 100)
    [range(4, 5), range(3, 4), range(2, 3), range(1, 2), range(0, 1)]
    >>> gradient_blocks((8, 88, 88, 88, 88, 2), 1, 100)
    [range(4, 5), range(1, 4), range(0, 1)]
    """
    hidden = _grouped(widths, 1, lambda weights: math.ceil(_BLOCK_FLOPS / (2.0 * networks * batch * weights)))
    return [*reversed(hidden), range(0, 1)]


def update_groups(widths: Sequence[int], networks: int) -> list[range]:
    """Return the layers in groups of one shape that are updated together, the first layers first.

    In narrow layers a group has many of them, since the calls would otherwise take longer than the update.

    >>> update_groups((8, 88, 88, 88, 88, 2), 1), update_groups((88, 88, 88, 88), 6)
    ([range(0, 1), range(1, 4), range(4, 5)], [range(0, 1), range(1, 2), range(2, 3)])
    """
    return _grouped(widths, 0, lambda weights: _UPDATED // (networks * weights))


def _grouped(widths: Sequence[int], start: int, most: Callable[[int], int]) -> list[range]:
    """Return layers from `start` on in groups of one shape, of as many as `most` says by their number of weights."""
    shapes, groups = list(pairwise(widths)), list[range]()
    for d in range(start, len(shapes)):
        if groups and shapes[d] == shapes[groups[-1].start] and len(groups[-1]) < most(math.prod(shapes[d])):
            groups[-1] = range(groups[-1].start, d + 1)
        else:
            groups.append(range(d, d + 1))
    return groups


def deltas_ahead(threads: int) -> int:
    """Return how many blocks of layers the propagation of delta may be ahead of the gradients, plus one.

    >>> deltas_ahead(1), deltas_ahead(2)
    (2, 4)
    """
    return 2 * threads


def scratch_numbers(widths: Sequence[int], networks: int, batch: int, ahead: int) -> int:
    """Return the numbers in the scratch memory of a stack: outputs of two layers, or deltas of `ahead` blocks."""
    deltas = max(len(block) * padded(batch * widths[block.stop]) for block in gradient_blocks(widths, networks, batch))
    outputs = 2 * padded(evaluated_rows(widths, batch) * max(widths[1:]))
    return networks * ahead * max(deltas, padded(-(-outputs // ahead)))


def stack_bytes(
    widths: Sequence[int],
    activations: Sequence[str],
    networks: int,
    batch: int,
    optimizer: str = "sgd",
    threads: int = 1,
) -> int:
    """Return the bytes that training a stack takes, with that many threads for all of it.

    These are its parameters and gradients, the outputs of all layers, the deltas of some, the planned operations, and
    the optimizer's state with its scratch memory.

    >>> stack_bytes((784, 88, 10), ("tanh", "linear"), networks=8, batch=100)
    9383680
    """
    widths = checks.all_whole("stack_bytes", "widths", widths)
    networks = checks.whole("stack_bytes", "networks", networks)
    batch = checks.whole("stack_bytes", "batch", batch)
    if not isinstance(activations, Sequence) or len(activations) != len(widths) - 1 or not activations:
        raise ValueError(
            f"stack_bytes: activations must list a name for each of the {len(widths) - 1} layers, got "
            f"activations={checks.shown(activations)}"
        )
    kept = sum(
        width * (2 if reads_input(activation(name)) else 1) for width, name in zip(widths[1:], activations, strict=True)
    )
    method = parse_optimizer(optimizer)
    groups = (len(group) * widths[group.start] * widths[group.stop] for group in update_groups(widths, networks))
    scratch = 0 if method.linear else max(sum(widths[1:]), *groups)
    parameters = (2 + len(method.slots)) * parameter_count(widths) + threads * scratch
    rows = evaluated_rows(widths, batch)
    numbers = networks * (parameters + batch * kept + rows * widths[-1]) + rows * widths[0]
    numbers += scratch_numbers(widths, networks, batch, deltas_ahead(threads))
    return PLAN_BYTES * len(activations) + _SINGLE * numbers


def reads_input(activation: Activation) -> bool:
    """Return whether the pass back through an activation reads its pre-activations, which are then kept too.

    >>> reads_input(activation("relu")), reads_input(activation("gelu"))
    (False, True)
    """
    if activation.inner is not None:
        return bool(activation.leak) or reads_input(activation.inner)
    if activation.family == "leaky_relu":
        return not (activation.parameter or 0.0) > 0
    return activation.family not in _FROM_OUTPUT

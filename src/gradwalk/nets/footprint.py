"""How many bytes a stack takes, known before it is allocated, and without torch."""

from collections.abc import Sequence
from itertools import pairwise

from gradwalk import checks
from gradwalk.activations import Activation, activation
from gradwalk.nets.optimizers import parse_optimizer
from gradwalk.nets.widths import parameter_count

_SINGLE = 4  # bytes
_FROM_OUTPUT = ("linear", "relu", "tanh")  # families whose f' follows from f(a) in `gradwalk.nets.pointwise`
PLAN_BYTES = (
    24_000  # bytes per layer for the planned operations of all passes, of full and of partial minibatches: measured
)

_EVALUATED = 65_536  # numbers of a layer's outputs that are evaluated at a time: they stay in the cache


def evaluated_rows(widths: Sequence[int], batch: int) -> int:
    """Return how many examples are evaluated at a time: in narrow layers more than the minibatch of a step.

    There the products of 100 rows take less time than the calls around them. It is 1, 2, 5, 10, 20 or 50 minibatches,
    so that most data sets are whole multiples of it, and does not depend on the number of networks.

    >>> evaluated_rows((784, 64, 64, 10), 100), evaluated_rows((784, 249, 10), 100)
    (1000, 200)
    """
    return next((batch * k for k in (50, 20, 10, 5, 2) if batch * k * max(widths[1:]) <= _EVALUATED), batch)


def stack_bytes(
    widths: Sequence[int], activations: Sequence[str], networks: int, batch: int, optimizer: str = "sgd"
) -> int:
    """Return the bytes that training a stack takes.

    These are its parameters and gradients, the outputs of all layers, two layers' worth of delta, the planned
    operations, and the optimizer's state with its scratch memory.

    >>> stack_bytes((784, 88, 10), ("tanh", "linear"), networks=8, batch=100)
    9223680
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
    scratch = 0 if method.linear else max(sum(widths[1:]), *(fan_in * fan_out for fan_in, fan_out in pairwise(widths)))
    parameters = (2 + len(method.slots)) * parameter_count(widths) + scratch
    rows = evaluated_rows(widths, batch)
    numbers = networks * (parameters + batch * kept + 2 * rows * max(widths[1:])) + rows * widths[0]
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

"""What a stack will occupy, told before it is allocated."""

from collections.abc import Sequence

from gradwalk.activations import activation
from gradwalk.nets.pointwise import pointwise
from gradwalk.nets.widths import parameter_count

_SINGLE = 4  # bytes
_PLANS = 24_000  # bytes a layer for the operations of all passes, on whole minibatches and on what is left: measured


def stack_bytes(widths: Sequence[int], activations: Sequence[str], networks: int, batch: int) -> int:
    """Return the bytes of a stack: parameters and gradients, outputs of all layers, two layers' worth of delta, plans.

    >>> stack_bytes((784, 88, 10), ("tanh", "linear"), networks=8, batch=100)
    5402880
    """
    kept = sum(
        width * (2 if pointwise(activation(name)).needs_input else 1)
        for width, name in zip(widths[1:], activations, strict=True)
    )
    plans = _PLANS * len(activations)
    return plans + _SINGLE * networks * (2 * parameter_count(widths) + batch * (kept + 2 * max(widths[1:])))

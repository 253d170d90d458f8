"""The memory of a stack: aligned tensors, and how many bytes it will take, known before they are allocated."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch

from gradwalk.activations import activation
from gradwalk.nets.optimizers import parse_optimizer
from gradwalk.nets.pointwise import pointwise
from gradwalk.nets.widths import parameter_count

_SINGLE = 4  # bytes
_ALIGNMENT = 16  # numbers in single precision: 64 bytes
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
    kept = sum(
        width * (2 if pointwise(activation(name)).needs_input else 1)
        for width, name in zip(widths[1:], activations, strict=True)
    )
    method = parse_optimizer(optimizer)
    scratch = 0 if method.linear else max(sum(widths[1:]), *(fan_in * fan_out for fan_in, fan_out in pairwise(widths)))
    parameters = (2 + len(method.slots)) * parameter_count(widths) + scratch
    rows = evaluated_rows(widths, batch)
    numbers = networks * (parameters + batch * kept + 2 * rows * max(widths[1:])) + rows * widths[0]
    return PLAN_BYTES * len(activations) + _SINGLE * numbers


def aligned(like: torch.Tensor, count: int, *shape: int) -> torch.Tensor:
    """Return uninitialised memory (count, *shape), in which the block of each network begins at a multiple of 64 bytes.

    The last bits of a product depend on where its factors lie in memory.
    """
    size = math.prod(shape)
    return like.new_empty(count, padded(size))[:, :size].view(count, *shape)


def aligned_copies(tensors: Sequence[torch.Tensor] | torch.Tensor) -> torch.Tensor:
    """Return copies of tensors of one shape, stacked in aligned memory."""
    copies = aligned(tensors[0], len(tensors), *tensors[0].shape)
    for copy, tensor in zip(copies, tensors, strict=True):
        copy.copy_(tensor)
    return copies


def padded(size: int) -> int:
    """Return the size rounded up to whole multiples of 64 bytes.

    >>> padded(100)
    112
    """
    return -(-size // _ALIGNMENT) * _ALIGNMENT

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


def stack_bytes(
    widths: Sequence[int], activations: Sequence[str], networks: int, batch: int, optimizer: str = "sgd"
) -> int:
    """Return the bytes that training a stack takes.

    These are its parameters and gradients, the outputs of all layers, two layers' worth of delta, the planned
    operations, and the optimizer's state with its scratch memory.

    >>> stack_bytes((784, 88, 10), ("tanh", "linear"), networks=8, batch=100)
    5402880
    """
    kept = sum(
        width * (2 if pointwise(activation(name)).needs_input else 1)
        for width, name in zip(widths[1:], activations, strict=True)
    )
    method = parse_optimizer(optimizer)
    scratch = 0 if method.linear else max(sum(widths[1:]), *(fan_in * fan_out for fan_in, fan_out in pairwise(widths)))
    parameters = (2 + len(method.slots)) * parameter_count(widths) + scratch
    return PLAN_BYTES * len(activations) + _SINGLE * networks * (parameters + batch * (kept + 2 * max(widths[1:])))


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

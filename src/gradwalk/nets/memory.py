"""The memory of a stack: aligned tensors. How many bytes it takes is in `gradwalk.nets.footprint`."""

import math
from collections.abc import Sequence

import torch

_ALIGNMENT = 16  # numbers in single precision: 64 bytes


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

"""The memory of a stack: aligned tensors. How many bytes it takes is in `gradwalk.nets.footprint`."""

import math
from collections.abc import Sequence
from itertools import groupby, pairwise

import torch

from gradwalk.nets.footprint import padded


def aligned(like: torch.Tensor, count: int, *shape: int) -> torch.Tensor:
    """Return uninitialised memory (count, *shape), in which the block of each network begins at a multiple of 64 bytes.

    The last bits of a product depend on where its factors lie in memory.
    """
    size = math.prod(shape)
    return like.new_empty(count, padded(size))[:, :size].view(count, *shape)


def aligned_layers(like: torch.Tensor, count: int, shapes: Sequence[tuple[int, ...]]) -> list[torch.Tensor]:
    """Return `aligned` memory for each of some layers; layers of one shape that follow each other are `joined`."""
    layers: list[torch.Tensor] = []
    for shape, group in groupby(shapes):
        size = len(list(group))
        layers += aligned(like, size * count, *shape).view(size, count, *shape)
    return layers


def aligned_weights(like: torch.Tensor, count: int, widths: Sequence[int]) -> list[torch.Tensor]:
    """Return `aligned_layers` for a number per weight of that many networks."""
    return aligned_layers(like, count, list(pairwise(widths)))


def joined(layers: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return layers of one shape, which lie in memory at equal distances, as one tensor (layers, ...)."""
    first = layers[0]
    distance = layers[-1].storage_offset() - first.storage_offset()
    stride = distance // max(len(layers) - 1, 1)
    return first.as_strided((len(layers), *first.shape), (stride, *first.stride()))

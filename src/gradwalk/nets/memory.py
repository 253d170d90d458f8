"""The memory of a stack: aligned tensors. How many bytes it takes is in `gradwalk.nets.footprint`."""

import ctypes
import math
import mmap
import sys
from collections.abc import Callable, Sequence
from functools import cache
from itertools import groupby, pairwise

import torch

from gradwalk.nets.footprint import padded

_LARGE = 1 << 22  # bytes of memory from which on large pages are asked for: two of them


def aligned(like: torch.Tensor, count: int, *shape: int) -> torch.Tensor:
    """Return uninitialised memory (count, *shape), in which the block of each network begins at a multiple of 64 bytes.

    The last bits of a product depend on where its factors lie in memory.
    """
    size = math.prod(shape)
    memory = like.new_empty(count, padded(size))
    _ask_for_large_pages(memory)
    return memory[:, :size].view(count, *shape)


def _ask_for_large_pages(memory: torch.Tensor) -> None:
    """Ask Linux for pages of 2 MB in memory not yet written to: the processor finds these sooner than small ones."""
    advise, size = _advise(), memory.numel() * memory.element_size()
    if advise is not None and memory.is_cpu and size >= _LARGE:
        first = -(-memory.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        advise(first, (memory.data_ptr() + size - first) // mmap.PAGESIZE * mmap.PAGESIZE, mmap.MADV_HUGEPAGE)


@cache
def _advise() -> Callable[[int, int, int], int] | None:
    """Return Linux's function for it, None elsewhere."""
    if sys.platform != "linux" or not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return advise


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

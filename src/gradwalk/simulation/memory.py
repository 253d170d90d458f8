"""How a simulation is cut to fit in memory: walks into blocks, the layers of a block into segments."""

import os
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from gradwalk.activations import Indices
from gradwalk.simulation.sampler import LayerSampler

AnySampler = type[LayerSampler[Any, Any]]  # each sampler keeps layers of its own type

THREADS = 4
KEPT_BYTES = 128e6  # layers of a block that wait for the backward pass, per thread
MARK_BYTES = 256e6  # signals at which segments begin
HEAVY_BYTES = 8e6  # if one layer of a block is larger, there is memory for one thread only
BLOCK_BYTES = 3e6  # otherwise one layer of a block is small enough to stay in the cache,
LEAST_BYTES = 2e5  # and large enough that NumPy's overhead per call does not dominate
SHARED_BYTES = 2e6  # a layer of a block from which on walks are divided among threads,
LIGHT_BYTES = 1e6  # and one below which threads take longer, waiting for Python's lock, than one of them alone
LEAST_WALKS = 512  # of a block without vectors, for the same reason,
MOST_WALKS = 4096  # and for the cache
RESULT_CELLS = 24_000_000  # of log_norm and log_variance, 8 bytes each


class Plan(NamedTuple):
    """How many walks are drawn together, on how many threads, and how many bytes a thread needs for kept vectors."""

    block: int
    threads: int
    arena_bytes: int


def plan(sampler: AnySampler, widths: tuple[int, ...], walks: int) -> Plan:
    """Return the plan of a sampler that keeps its layers until the backward pass."""
    block = block_size(sampler, widths, walks)
    largest = max(sampler.layer_bytes(*pair) for pair in pairwise((0, *widths[:-1])))
    threads = _threads(walks, block) if LIGHT_BYTES <= block * largest <= HEAVY_BYTES else 1
    kept = 0 if sampler.kept_bytes is not None else block * sum(kept_bytes(sampler, widths))
    return Plan(block, threads, min(int(KEPT_BYTES), kept))


def plan_without_vectors(walks: int) -> Plan:
    """Return the plan of a sampler that keeps nothing."""
    block = min(walks, max(LEAST_WALKS, -(-walks // THREADS)), MOST_WALKS)
    return Plan(block, _threads(walks, block), 0)


def _threads(walks: int, block: int) -> int:
    return min(-(-walks // block), THREADS, os.cpu_count() or 1)


def kept_bytes(sampler: AnySampler, widths: tuple[int, ...]) -> list[int]:
    """Return how many bytes layers 0 to D - 1 of one walk need until the backward pass."""
    if sampler.kept_bytes is not None:
        return [sampler.kept_bytes] * (len(widths) - 1)
    return [sampler.layer_bytes(*pair) for pair in pairwise((0, *widths[:-1]))]


def segments(sampler: AnySampler, widths: tuple[int, ...], walks: int) -> list[range]:
    """Return layers 0 to D - 1 as consecutive ranges, each of which fits in the memory for kept layers."""
    edges, kept = [0], 0
    for d, size in enumerate(kept_bytes(sampler, widths)):
        kept += walks * size
        if kept > KEPT_BYTES and d > edges[-1]:
            edges.append(d)
            kept = walks * size
    return [range(*pair) for pair in pairwise([*edges, len(widths) - 1])]


def block_size(sampler: AnySampler, widths: tuple[int, ...], walks: int) -> int:
    """Return how many walks are drawn together: few enough to fit the cache and to give every thread its share."""
    largest = max(sampler.layer_bytes(*pair) for pair in pairwise(widths))
    if largest > KEPT_BYTES:
        raise ValueError("simulate: matrices of these widths do not fit in memory; use method='exact'")
    least = int(LEAST_BYTES // largest)
    fitting = max(least, int(KEPT_BYTES // sum(kept_bytes(sampler, widths))))
    shared = max(int(sampler.block_factor * SHARED_BYTES // largest), -(-walks // THREADS))
    cached = int(sampler.block_factor * BLOCK_BYTES // largest)
    block = _evenly(walks, max(1, min(walks, shared, fitting, cached)), max(1, min(fitting, cached)))
    if len(segments(sampler, widths, block)) * block * max(widths) * 8 > MARK_BYTES:
        raise ValueError("simulate: networks this wide and this deep do not fit in memory; reduce width or depth")
    return block


def _evenly(walks: int, block: int, most: int) -> int:
    """Return the size of blocks near `block` that two threads share evenly: of blocks of one size, an even number."""
    number = -(-walks // block)
    if number % 2 and number > 1:
        fewer = -(-walks // (number - 1))
        number += -1 if fewer <= most else 1
    return -(-walks // number)


def kept_layers(depth: int, every: int, walks: int) -> Indices:
    """Return the layers that the result keeps, from D down to 0, both included."""
    layers = np.append(np.arange(depth, 0, -every), 0)
    if walks * len(layers) > RESULT_CELLS:
        room = RESULT_CELLS // walks - 2
        advice = f"keep fewer layers with every={-(-depth // room)} or " if room > 0 else ""
        raise ValueError(
            f"simulate: {walks} walks of {len(layers)} layers do not fit in memory; {advice}reduce the number of walks"
        )
    return layers

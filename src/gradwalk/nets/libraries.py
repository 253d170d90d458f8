"""Which library computes a product on a CPU: NumPy's BLAS or torch's. Either is the faster one on some processor.

A run must not depend on the load of the machine, not even in its last bits. So for each kind of product there is a
library whose bits count, which depends on the processor alone. The other one takes its place only where it gives the
same bits, and was faster when both were tried. See docs/performance.md.
"""

import math
import platform
import time
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from gradwalk.nets.crew import Step, run
from gradwalk.nets.memory import aligned

Product = Literal["h W", "delta W^T", "h^T delta"]

_WIDE = 6_400  # weights from which MKL is the faster one on its maker's processors
_TRIED_FLOPS = 1e6, 1e9  # smaller products take no time, larger ones too much of it for a trial
_MOST_NETWORKS = 16  # in a trial
_BYTES = 2e6  # of the weights in a round, so that they come from further away than a core's own caches
_ROUNDS, _BETTER = 3, 0.95  # the part of the other's time below which a library is called faster


def product_step(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, by_numpy: bool) -> Step:
    """Return the step that puts the products of the matrices (networks, rows, columns) into `out`."""
    if by_numpy:
        return partial(np.matmul, left.numpy(), right.numpy(), out=out.numpy())
    return partial(torch.bmm, left, right, out=out)


def takes_numpy(product: Product, networks: int, rows: int, fan_in: int, fan_out: int) -> bool:
    """Return whether NumPy computes a product for a layer of that many networks, by a trial where it may matter."""
    flops = 2.0 * networks * rows * fan_in * fan_out
    if not _TRIED_FLOPS[0] <= flops <= _TRIED_FLOPS[1]:
        return bits_of_numpy(product, fan_in, fan_out)
    return _tried(product, min(networks, _MOST_NETWORKS), rows, fan_in, fan_out)


def bits_of_numpy(product: Product, fan_in: int, fan_out: int) -> bool:
    """Return whether NumPy is the library whose bits count, or else torch."""
    return product != "delta W^T" and not (_mkl_at_home() and fan_in * fan_out >= _WIDE)


@lru_cache(maxsize=1)
def _mkl_at_home() -> bool:
    """Return whether torch computes with Intel's library on one of Intel's processors."""
    processors = Path("/proc/cpuinfo")  # Linux; elsewhere Python knows
    maker = processors.read_text("utf-8") if processors.exists() else platform.processor()
    return "GenuineIntel" in maker and bool(torch.backends.mkl.is_available())  # type: ignore[no-untyped-call]


@lru_cache(maxsize=1024)
def _tried(product: Product, networks: int, rows: int, fan_in: int, fan_out: int) -> bool:
    """Return which library wins: the one whose bits count, unless the other one has the same bits and is faster."""
    usual = bits_of_numpy(product, fan_in, fan_out)
    left, right = _operands(product, networks, rows, fan_in, fan_out)
    copies = int(_BYTES // (4 * networks * fan_in * fan_out))
    operands = [*((left.clone(), right.clone()) for _ in range(copies)), (left, right)]
    results = [aligned(left, networks, left.shape[1], right.shape[2]) for _ in range(2)]
    seconds = [math.inf, math.inf]
    for _ in range(_ROUNDS):
        for place, by_numpy in enumerate((usual, not usual)):
            steps = [product_step(*each, results[place], by_numpy) for each in operands]
            before = time.perf_counter()
            run(steps)
            seconds[place] = min(seconds[place], time.perf_counter() - before)
    change = torch.equal(*results) and seconds[1] < _BETTER * seconds[0]
    return usual != change


def _operands(
    product: Product, networks: int, rows: int, fan_in: int, fan_out: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random factors, which lie in memory as those of a stack do."""
    generator = torch.Generator().manual_seed(0)
    h, delta, weight = (
        aligned(torch.empty(0), networks, *shape).normal_(generator=generator)
        for shape in ((rows, fan_in), (rows, fan_out), (fan_in, fan_out))
    )
    if product == "h W":
        return h, weight
    return (delta, weight.mT) if product == "delta W^T" else (h.mT, delta)

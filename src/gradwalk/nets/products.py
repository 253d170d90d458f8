"""The three products of a layer for all networks of a stack: weights (networks, in, out), h (networks, rows, in).

On a CPU, two of them are computed by NumPy's BLAS or torch's, whichever is faster for layers of that size on the
processor, see docs/performance.md; a measurement at start would make the last bits of a run depend on the load of the
machine. Either library is limited to one thread, because two pools of threads in one process compete for the cores.
`by_numpy` is False for torch alone.
"""

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from gradwalk.nets.crew import Step, run

# Measured, see docs/performance.md: from about this size on torch is as fast if it computes the product by blocks of
# rows, and it can share the blocks among threads.
_LARGE, _ROWS = 800_000, 256
_WIDE = 6_400  # weights from which torch is faster if it computes by MKL on a processor of Intel's

_CUT = 48  # rows: whole multiples of the rows that the kernels of OpenBLAS (12) and MKL (8) compute at a time


@contextmanager
def one_thread() -> Iterator[None]:
    """Let an operation of torch or NumPy use one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


@lru_cache(maxsize=256)
def cuts(rows: int, parts: int, shapes: tuple[tuple[int, int], ...], by_numpy: bool) -> list[int]:
    """Return where rows are cut into at most that many parts whose products with weights of these shapes are the same.

    Whether a product of some of the rows has the same bits as that of all is up to the library: it is computed once.

    >>> cuts(100, 1, ((64, 64),), True)
    [0, 100]
    """
    parts = max(1, min(parts, rows // _CUT))
    inner = [round(rows * part / parts / _CUT) * _CUT for part in range(1, parts)]
    found = [0, *inner, rows]
    return found if all(_agree(found, *shape, by_numpy) for shape in shapes) else [0, rows]


def shapes(widths: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return the different shapes of the weights between layers of these widths.

    >>> shapes((784, 88, 88, 88, 10))
    ((88, 10), (88, 88), (784, 88))
    """
    return tuple(sorted(set(pairwise(widths))))


def _agree(cuts: list[int], fan_in: int, fan_out: int, by_numpy: bool) -> bool:
    """Return whether h W + b by parts of the rows is that of all rows, bit for bit."""
    generator = torch.Generator().manual_seed(0)
    h = torch.randn(1, cuts[-1], fan_in, generator=generator)
    weight, bias = (torch.randn(1, each, fan_out, generator=generator) for each in (fan_in, 1))
    whole, parts = torch.empty(1, cuts[-1], fan_out), torch.empty(1, cuts[-1], fan_out)
    run(affine(h, weight, bias, whole, by_numpy))
    for start, stop in pairwise(cuts):
        run(affine(h[:, start:stop], weight, bias, parts[:, start:stop], by_numpy))
    return torch.equal(whole, parts)


def affine(h: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, by_numpy: bool) -> list[Step]:
    """Return the steps that put h W + b of each network into `out`; the bias is (networks, 1, out)."""
    if not (by_numpy and _numpy_leads(weight)):
        return [partial(torch.baddbmm, bias, h, weight, out=out)]
    result = out.numpy()
    return [
        partial(np.matmul, h.numpy(), weight.numpy(), out=result),
        partial(np.add, result, bias.numpy(), out=result),
    ]


def backward(delta: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> list[Step]:
    """Return the steps that put delta W^T of each network into `out`."""
    return [partial(torch.bmm, delta, weight.transpose(1, 2), out=out)]


def gradient(h: torch.Tensor, delta: torch.Tensor, out: torch.Tensor, by_numpy: bool) -> list[Step]:
    """Return the steps that put h^T delta of each network into `out`, which has the shape of the weights.

    All three have the layers of a block as their first axis.
    """
    if by_numpy and _numpy_leads(out[0]):
        return [partial(np.matmul, h.numpy().transpose(0, 1, 3, 2), delta.numpy(), out=out.numpy())]
    if not by_numpy or out[0, 0].numel() < _LARGE:
        h, delta, out = (each.flatten(0, 1) for each in (h, delta, out))
        return [partial(torch.bmm, h.mT, delta, out=out)]
    return [
        partial(torch.mm, network_h[:, start : start + _ROWS].T, network_delta, out=network_out[start : start + _ROWS])
        for layer in zip(h, delta, out, strict=True)
        for network_h, network_delta, network_out in zip(*layer, strict=True)
        for start in range(0, len(network_out), _ROWS)
    ]


def _numpy_leads(weight: torch.Tensor) -> bool:
    """Return whether NumPy is the faster library for a layer, given its weights (networks, in, out)."""
    return weight[0].numel() < (_WIDE if _mkl_at_home() else _LARGE)


@lru_cache(maxsize=1)
def _mkl_at_home() -> bool:
    """Return whether torch computes by Intel's library on one of Intel's processors."""
    processors = Path("/proc/cpuinfo")  # Linux; elsewhere Python knows
    maker = processors.read_text("utf-8") if processors.exists() else platform.processor()
    return "GenuineIntel" in maker and bool(torch.backends.mkl.is_available())  # type: ignore[no-untyped-call]

"""The three products of a layer for all networks of a stack: weights (networks, in, out), h (networks, rows, in).

On a CPU, NumPy's BLAS or torch's computes them, see `gradwalk.nets.libraries`. Either is limited to one thread, because
two pools of threads in one process compete for the cores. `by_numpy` is False for torch alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import pairwise

import numpy as np
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from gradwalk.nets.crew import Step, run
from gradwalk.nets.libraries import product_step, takes_numpy

# Measured, see docs/performance.md: from about this size on torch is as fast if it computes the product by blocks of
# rows, and it can share the blocks among threads.
_LARGE, _ROWS = 800_000, 256

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
    if not (by_numpy and _is_small(weight)):
        return [partial(torch.baddbmm, bias, h, weight, out=out)]
    shape, result = (len(weight), h.shape[1], *weight.shape[1:]), out.numpy()
    return [
        product_step(h, weight, out, takes_numpy("h W", *shape)),
        partial(np.add, result, bias.numpy(), out=result),
    ]


def backward(delta: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, by_numpy: bool) -> list[Step]:
    """Return the steps that put delta W^T of each network into `out`."""
    shape = (len(weight), delta.shape[1], *weight.shape[1:])
    chosen = by_numpy and _is_small(weight) and takes_numpy("delta W^T", *shape)
    return [product_step(delta, weight.mT, out, chosen)]


def gradient(h: torch.Tensor, delta: torch.Tensor, out: torch.Tensor, by_numpy: bool) -> list[Step]:
    """Return the steps that put h^T delta of each network into `out`, which has the shape of the weights.

    All three have the layers of a block as their first axis.
    """
    if not by_numpy or _is_small(out[0]):
        h, delta, out = (each.flatten(0, 1) for each in (h, delta, out))
        chosen = by_numpy and takes_numpy("h^T delta", len(out), h.shape[1], *out.shape[1:])
        return [product_step(h.mT, delta, out, chosen)]
    return [
        partial(torch.mm, network_h[:, start : start + _ROWS].T, network_delta, out=network_out[start : start + _ROWS])
        for layer in zip(h, delta, out, strict=True)
        for network_h, network_delta, network_out in zip(*layer, strict=True)
        for start in range(0, len(network_out), _ROWS)
    ]


def _is_small(weight: torch.Tensor) -> bool:
    return weight[0].numel() < _LARGE

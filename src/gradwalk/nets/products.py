"""The three products of a layer for all networks of a stack: weights (networks, in, out), h (networks, rows, in).

On a CPU, NumPy's BLAS computes two of them, which is faster there than torch's, see docs/performance.md. It is limited
to one thread, because two pools of threads in one process compete for the cores. `by_numpy` is False for torch alone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

Step = Callable[[], object]  # an operation bound to its operands

# Measured, see docs/performance.md: from about this size on torch is as fast if it computes the product by blocks of
# rows, and it can share the blocks among threads.
_LARGE, _ROWS = 800_000, 256


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch use that many threads for one operation, and NumPy one."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with threadpool_limits(1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


def affine(h: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor, by_numpy: bool) -> list[Step]:
    """Return the steps that put h W + b of each network into `out`; the bias is (networks, 1, out)."""
    if not (by_numpy and _is_small(weight)):
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
    """Return the steps that put h^T delta of each network into `out`, which has the shape of the weights."""
    if not by_numpy:
        return [partial(torch.bmm, h.transpose(1, 2), delta, out=out)]
    if _is_small(out):
        return [partial(np.matmul, h.numpy().transpose(0, 2, 1), delta.numpy(), out=out.numpy())]
    return [
        partial(torch.mm, network_h[:, start : start + _ROWS].T, network_delta, out=network_out[start : start + _ROWS])
        for network_h, network_delta, network_out in zip(h, delta, out, strict=True)
        for start in range(0, len(network_out), _ROWS)
    ]


def _is_small(weight: torch.Tensor) -> bool:
    return weight[0].numel() < _LARGE

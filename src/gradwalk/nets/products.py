"""The three products of a layer for all networks of a stack: weights (networks, in, out), h (networks, rows, in).

On a CPU NumPy's BLAS makes two of them: it is faster there than torch's, which knows Intel's processors best, see
docs/performance.md. It has to be held to one thread: two pools of threads in one process get in each other's way.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

Step = Callable[[], object]  # an operation on memory that it knows already

# Measured, see docs/performance.md: from about this size on torch is level where a product is made by blocks of rows,
# and can share it among threads.
_LARGE, _ROWS = 800_000, 256


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch use so many threads for one operation, and NumPy one."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with threadpool_limits(1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


def affine(h: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, out: torch.Tensor) -> list[Step]:
    """Return what puts h W + b of each network into `out`; the bias is (networks, 1, out)."""
    if not _by_numpy(weight):
        return [partial(torch.baddbmm, bias, h, weight, out=out)]
    result = out.numpy()
    return [
        partial(np.matmul, h.numpy(), weight.numpy(), out=result),
        partial(np.add, result, bias.numpy(), out=result),
    ]


def backward(delta: torch.Tensor, weight: torch.Tensor, out: torch.Tensor) -> list[Step]:
    """Return what puts delta W^T of each network into `out`."""
    return [partial(torch.bmm, delta, weight.transpose(1, 2), out=out)]


def gradient(h: torch.Tensor, delta: torch.Tensor, out: torch.Tensor) -> list[Step]:
    """Return what puts h^T delta of each network into `out`, whose shape is the weights'."""
    if _by_numpy(out):
        return [partial(np.matmul, h.numpy().transpose(0, 2, 1), delta.numpy(), out=out.numpy())]
    if out.device.type != "cpu":
        return [partial(torch.bmm, h.transpose(1, 2), delta, out=out)]
    return [
        partial(torch.mm, one[:, start : start + _ROWS].T, its_delta, out=its_out[start : start + _ROWS])
        for one, its_delta, its_out in zip(h, delta, out, strict=True)
        for start in range(0, len(its_out), _ROWS)
    ]


def _by_numpy(weight: torch.Tensor) -> bool:
    return weight.device.type == "cpu" and weight[0].numel() < _LARGE

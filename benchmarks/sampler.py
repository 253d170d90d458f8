"""How much faster the exact sampler is than drawing the network: both sides in one run, their answers compared first.

The dense side is the better of two: `simulate(method="dense")`, in NumPy and double precision, and the same in torch
and single precision with batched products on all cores, written here to be as fast as torch lets it be.
"""

import argparse
import functools
import json
import math
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from setting import line, setting

from gradwalk.simulation import simulate

DEPTH = 200
GAINS = {"relu": 1.4323, "tanh": 1.143}
TORCH_F = {"relu": torch.relu, "tanh": torch.tanh}
TORCH_SLOPE = {"relu": lambda a, h: (a > 0).to(a.dtype), "tanh": lambda a, h: 1 - h * h}


@functools.lru_cache(maxsize=1)
def matrices_in_memory(width: int) -> torch.Tensor:
    """Return room for the matrices of a block of networks, touched once so that no page is new to the clock."""
    block = max(1, int(64e6 // (4 * DEPTH * width * width)))
    return torch.zeros(DEPTH, block, width, width)


def torch_dense(name: str, width: int, walks: int, seed: int) -> np.ndarray:
    """Return the final log-norms of literal networks; matrices of as many walks as fit are kept in memory."""
    gain, generator = GAINS[name] / math.sqrt(width), torch.Generator().manual_seed(seed)
    matrices = matrices_in_memory(width)
    block = matrices.shape[1]
    finals = []
    for _ in range(-(-walks // block)):
        a = torch.randn(block, width, 1, generator=generator)
        slopes, log_norm = [], torch.zeros(block, dtype=torch.float64)
        for matrix in matrices:
            h = TORCH_F[name](a)
            slopes.append(TORCH_SLOPE[name](a, h))
            a = torch.bmm(matrix.normal_(generator=generator), h).mul_(gain)
        delta = torch.randn(block, 1, width, generator=generator)
        delta /= delta.norm(dim=2, keepdim=True)
        for matrix, slope in zip(reversed(matrices), reversed(slopes), strict=True):
            delta = torch.bmm(delta, matrix).mul_(gain).mul_(slope.transpose(1, 2))
            norm = delta.norm(dim=2, keepdim=True)
            delta /= norm
            log_norm += norm[:, 0, 0].double().log()
        finals.append(log_norm)
    return torch.cat(finals)[:walks].numpy()


def seconds_a_walk(sample: Callable[[int], object], walks: int, repeats: int) -> list[float]:
    """Return seconds a walk, one value a repeat."""
    times = []
    for repeat in range(repeats):
        start = time.perf_counter()
        sample(repeat)
        times.append((time.perf_counter() - start) / walks)
    return times


def compare(name: str, width: int, repeats: int) -> dict[str, object]:
    """Return one row: seconds a walk of each side, and the ratio exact over the better dense one."""
    gain, many = GAINS[name], 4000 if width <= 100 else 1000
    few = 8 * -(-max(2, min(200, 3_000_000 // width**2)) // 8) if width <= 300 else 3

    def exact(seed: int) -> np.ndarray:
        return simulate(name, width, DEPTH, gain=gain, walks=many, rng=seed).final

    def dense(seed: int) -> np.ndarray:
        return simulate(name, width, DEPTH, gain=gain, walks=few, rng=seed, method="dense").final

    def dense_torch(seed: int) -> np.ndarray:
        return torch_dense(name, width, few, seed)

    reference = exact(99)
    for other in (dense(1), dense_torch(1)):
        error = math.hypot(reference.std() / math.sqrt(many), reference.std() / math.sqrt(few))
        assert abs(reference.mean() - other.mean()) < 4.5 * error, (
            name,
            width,
            reference.mean(),
            other.mean(),
        )
    times = {
        "exact": seconds_a_walk(exact, many, repeats),
        "dense_numpy": seconds_a_walk(dense, few, repeats),
        "dense_torch": seconds_a_walk(dense_torch, few, repeats),
    }
    medians = {side: statistics.median(each) for side, each in times.items()}
    ratios = {side: medians[side] / medians["exact"] for side in ("dense_numpy", "dense_torch")}
    return {"activation": name, "width": width, "depth": DEPTH, "seconds": times, "ratios": ratios}


def main() -> None:
    """Print a table, and write it with the versions as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--widths", type=int, nargs="+", default=[30, 100, 300, 1000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", help="also write the rows there")
    options = parser.parse_args()
    print(line(), f"depth {DEPTH}", sep="; ")
    print(
        f"{'':12}{'width':>6}  {'exact':>12} {'dense NumPy':>14} {'dense torch':>14}   times faster than NumPy, torch"
    )
    rows = []
    for name in GAINS:
        for width in options.widths:
            row = compare(name, width, options.repeats)
            rows.append(row)
            microseconds = [1e6 * statistics.median(each) for each in row["seconds"].values()]
            ratios = row["ratios"].values()
            print(
                f"{name:12}{width:6}  "
                + " ".join(f"{each:11.1f} us" for each in microseconds)
                + "   "
                + "".join(f"{each:12.0f}" for each in ratios),
                flush=True,
            )
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"setting": setting(), "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()

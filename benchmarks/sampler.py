"""The speed of the exact sampler against drawing the network: both sides in one run, after a comparison of results.

The dense side is the faster of two: `simulate(method="dense")`, in NumPy with double precision, and an implementation
in torch with single precision and batched products on all cores, optimised as far as torch allows.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from setting import Answer, Spread, Table, main, number, seconds

from gradwalk.simulation import simulate

DEPTH = 200
FEW = {30: 200, 100: 32, 300: 16, 1000: 1}  # width: walks of the dense sides per round
TARGETS = {
    "relu": {100: 500, 1000: 20_000},
    "tanh": {100: 80, 1000: 700},
}  # by width: speed-up over the faster dense side
GAINS = {"relu": 1.4323, "tanh": 1.143}
TORCH_F = {"relu": torch.relu, "tanh": torch.tanh}
TORCH_SLOPE = {"relu": lambda a, h: (a > 0).to(a.dtype), "tanh": lambda a, h: 1 - h * h}


@functools.lru_cache(maxsize=1)
def matrices_in_memory(width: int) -> torch.Tensor:
    """Return memory for the matrices of a block of networks, touched once so that no page fault is timed."""
    block = max(1, int(64e6 // (4 * DEPTH * width * width)))
    return torch.zeros(DEPTH, block, width, width)


def torch_dense(name: str, width: int, walks: int, seed: int) -> np.ndarray:
    """Return the final log-norms of literal networks, drawn in blocks whose matrices fit in memory."""
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


def compare(name: str, width: int, rounds: int) -> dict[str, Any]:
    """Return one row: seconds per walk of each side, timed in turns, and the ratio of the faster dense one to exact."""
    gain, many, few = GAINS[name], 4000 if width <= 100 else 1000, FEW[width]

    def exact(seed: int) -> np.ndarray:
        return simulate(name, width, DEPTH, gain=gain, walks=many, rng=seed).final

    def dense(seed: int) -> np.ndarray:
        return simulate(name, width, DEPTH, gain=gain, walks=few, rng=seed, method="dense").final

    def dense_torch(seed: int) -> np.ndarray:
        return torch_dense(name, width, few, seed)

    sides = {"exact": (exact, many), "dense_numpy": (dense, few), "dense_torch": (dense_torch, few)}
    reference = exact(99)
    error = math.hypot(reference.std() / math.sqrt(many), reference.std() / math.sqrt(few))
    for other in (dense(1), dense_torch(1)):
        assert abs(reference.mean() - other.mean()) < 4.5 * error, (name, width, reference.mean(), other.mean())
    times: dict[str, list[float]] = {side: [] for side in sides}
    for seed in range(rounds):
        for side, (sample, walks) in sides.items():
            times[side].append(seconds(functools.partial(sample, seed)) / walks)
    better = [min(pair) for pair in zip(times["dense_numpy"], times["dense_torch"], strict=True)]
    ratio = Spread.of([dense / exact for dense, exact in zip(better, times["exact"], strict=True)])
    spreads = {side: vars(Spread.of(values)) for side, values in times.items()}
    return {"activation": name, "width": width, "depth": DEPTH, "ratio": vars(ratio), **spreads}


def growth(rows: list[dict[str, Any]], side: str) -> float:
    """Return the exponent b of seconds ~ width^b, by least squares on logarithms."""
    widths, times = [row["width"] for row in rows], [row[side]["median"] for row in rows]
    return float(np.polyfit(np.log(widths), np.log(times), 1)[0])


def measure(quick: bool, parts: Sequence[str]) -> Answer:
    """Return the times of all sides, and how they scale with the width where all widths are measured."""
    heads = ("activation", "width", "exact, us", "dense NumPy, us", "dense torch, us", "faster dense one / exact")
    table = Table(f"The exact sampler against the dense one, per walk of {DEPTH} layers", heads)
    answer = Answer([table])
    for name in GAINS:
        widths = [width for width in FEW if _part(name, width) in parts]
        rows = [_added(compare(name, width, 1 if quick else 5 if width < 1000 else 2), table) for width in widths]
        answer.numbers += rows
        if len(rows) == len(FEW):
            exponents = {side: growth(rows, side) for side in ("exact", "dense_numpy", "dense_torch")}
            answer.numbers.append({"activation": name, "growth": exponents})
            table.add(name, "scales as", *(f"N^{exponent:.2f}" for exponent in exponents.values()), "")
        for row in rows:
            width, ratio = row["width"], row["ratio"]["median"]
            if width in TARGETS[name]:
                target = TARGETS[name][width]
                claim = f"exact sampler at least {target} times as fast at N={width}, {name}"
                answer.aim(claim, number(ratio), ratio >= target)
    return answer


def _part(name: str, width: int) -> str:
    return f"{name}-{width}"


def _added(row: dict[str, Any], table: Table) -> dict[str, Any]:
    times = [number(1e6 * row[side]["median"]) for side in ("exact", "dense_numpy", "dense_torch")]
    table.add(row["activation"], row["width"], *times, Spread(**row["ratio"]))
    return row


if __name__ == "__main__":
    main(__doc__, measure, [_part(name, width) for name in GAINS for width in FEW])

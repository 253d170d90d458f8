"""Networks are drawn in blocks on a few threads; the random numbers of a block do not depend on the thread."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from gradwalk import checks
from gradwalk.progress import progress
from gradwalk.simulation.arena import Arena
from gradwalk.simulation.memory import Plan

Job = tuple[int, np.random.SeedSequence]
Advance = Callable[[int], None]
DrawnT = TypeVar("DrawnT")

# glibc returns freed memory to the system beyond twice the size of the largest array freed so far, and new pages cost
# more than random numbers. Arrays of one layer together are smaller than this.
_FREED = 1 << 24


class Drawing(NamedTuple, Generic[DrawnT]):
    """How blocks of networks are drawn: their plan, and what draws one of them."""

    plan: Plan
    draw: Callable[[Arena, np.random.SeedSequence, Advance], DrawnT]


def draw(
    drawing: Drawing[DrawnT],
    count: int,
    seed: np.random.SeedSequence,
    fill: Callable[[DrawnT, slice], int],
    label: str,
    depth: int,
) -> int:
    """Draw that many networks in blocks, on a few threads; return the sum of `fill` of each block and its rows."""
    block, threads, arena_bytes = drawing.plan
    starts = range(0, count, block)
    jobs = list(zip(starts, seed.spawn(len(starts)), strict=True))

    def run(jobs: list[Job], advance: Advance) -> int:
        np.empty(_FREED, dtype=np.uint8)  # freed at once
        arena, total = Arena(arena_bytes), 0
        for start, seed in jobs:
            total += fill(drawing.draw(arena, seed, advance), slice(start, min(start + block, count)))
        return total

    return _in_threads(run, jobs, threads, label, len(jobs) * depth)


def _in_threads(run: Callable[[list[Job], Advance], int], jobs: list[Job], threads: int, label: str, steps: int) -> int:
    """Run the jobs on a few threads and return the sum of their results; NumPy releases the interpreter's lock."""
    stop = threading.Event()
    with progress(label, steps) as shown, ThreadPoolExecutor(threads) as pool:

        def advance(steps: int) -> None:
            if stop.is_set():
                raise InterruptedError
            shown.advance(steps)

        try:
            return sum(pool.map(lambda first: run(jobs[first::threads], advance), range(threads)))
        except BaseException:
            stop.set()  # an interrupt, or an error in one thread: the others need not finish
            raise


def seed_of(rng: np.random.Generator | int | None) -> np.random.SeedSequence:
    """Return the seeds of a simulation, from a generator, a seed, or nothing."""
    if rng is not None and not isinstance(rng, np.random.Generator):
        rng = checks.whole("simulate", "rng", rng, least=0, most=2**128)
    words = np.random.default_rng(rng).integers(0, 2**32, 4, dtype=np.uint64)
    return np.random.SeedSequence([int(word) for word in words])

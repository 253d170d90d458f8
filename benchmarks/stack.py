"""Stacked training against its alternatives, in network-steps per second and relative to the peak of matrix products.

Every side runs in its own process (see `sides`). The stack takes turns with one other side at a time, round by round;
the losses of the first two steps are compared before anything is timed. Where a side can be run in two ways (the loop
on one thread or on all, JAX with all networks or one, products by torch or NumPy), the one with the better median
counts.
"""

import math
import multiprocessing
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import sides
from setting import Answer, Spread, Table, main, number, shape_name

from gradwalk.nets.widths import parameter_count
from gradwalk.sweep import stacks
from gradwalk.sweep.entry import Entry

SHAPES = ((512, 88), (128, 177), (32, 356), (4, 1229), (1000, 249))  # depth, width
PARTS = [shape_name(shape) for shape in SHAPES]
ROOM = 3.5e9  # bytes available to a stack
PATIENCE = 60.0  # seconds that a side may take to start, including compilation
PAIR = 30.0  # seconds after which no further round begins, after at least two
BATCHES = [np.arange(sides.BATCH) + sides.BATCH * place for place in range(10)]
# Per side: ways to run it, each a list of parallel processes: class, options, and whether it has all networks or 1.
ALONE = {"threads": 1}
SIDES: dict[str, list[list[tuple[str, dict[str, int], bool]]]] = {
    "peak": [[("Peak", {"by_numpy": 0}, True)], [("Peak", {"by_numpy": 1}, True)]],
    "loop": [[("Loop", ALONE, False)], [("Loop", {}, False)]],
    "processes": [[("Loop", ALONE, False)] * sides.CORES],
    "vmap": [[("Vmapped", {}, True)]],
    "compile": [[("Compiled", {}, False)]],
    "JAX": [[("Jax", {}, True)], [("Jax", {}, False)]],
}
TARGETS: dict[tuple[int, int], dict[str, float]] = {
    (512, 88): {"peak": 0.85, "loop": 3.0, "processes": 1.7},
    (128, 177): {"peak": 0.85, "loop": 2.0, "processes": 1.2},
    (32, 356): {"loop": 1.3, "processes": 1.5},
    (1000, 249): {"peak": 0.85, "processes": 1.5},
}


def _serve(pipe: Any, kind: str, options: dict[str, int], shape: tuple[int, int], count: int) -> None:
    """Build a side, send its losses and the seconds per step, then take steps on request."""
    side: sides.Side = getattr(sides, kind)(sides.runs(*shape, count), sides.examples(), **options)
    losses = [side.step(rows)[:1] for rows in BATCHES[:2]]
    start = time.perf_counter()
    side.steps(BATCHES[:1])
    pipe.send((side.networks, losses, time.perf_counter() - start))
    for steps in iter(pipe.recv, 0):
        side.steps([BATCHES[place % len(BATCHES)] for place in range(steps)])
        pipe.send(None)


class Team:
    """Processes that do the same work in parallel, on request."""

    def __init__(self, members: Sequence[tuple[str, dict[str, int], bool]], shape: tuple[int, int], count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipes, self.processes = [], []
        for kind, options, whole in members:
            ours, theirs = context.Pipe()
            arguments = (theirs, kind, options, shape, count if whole else 1)
            self.pipes.append(ours)
            self.processes.append(context.Process(target=_serve, args=arguments, daemon=True))
            self.processes[-1].start()
            theirs.close()

    def ready(self, until: float) -> bool:
        """Receive the losses and the seconds per step of all processes; return False if one fails or takes too long."""
        for pipe in self.pipes:
            if not pipe.poll(max(0.0, until - time.monotonic())):
                return False
            try:
                networks, self.losses, self.seconds = pipe.recv()
            except EOFError:
                return False
        self.networks = networks * len(self.pipes)
        return True

    def rate(self, length: float) -> float:
        """Return network-steps per second, measured over about `length` seconds."""
        steps = max(1, round(length / self.seconds))
        start = time.perf_counter()
        for pipe in self.pipes:
            pipe.send(steps)
        for pipe in self.pipes:
            pipe.recv()
        return steps * self.networks / (time.perf_counter() - start)

    def close(self) -> None:
        """End the processes; one that is still busy is killed."""
        for pipe, process in zip(self.pipes, self.processes, strict=True):
            with suppress(BrokenPipeError):  # of a process that failed
                pipe.send(0)
            process.join(3)
            process.kill()


@contextmanager
def ready(name: str, shape: tuple[int, int], count: int) -> Iterator[list[Team]]:
    """Yield the ways to run a side, without those that are not ready in time."""
    teams: list[Team] = []
    try:
        for members in SIDES.get(name, [[("Stack", {}, True)]]):
            team = Team(members, shape, count)
            if team.ready(time.monotonic() + PATIENCE):
                teams.append(team)
            else:
                team.close()
        yield teams
    finally:
        for team in teams:
            team.close()


def stack_size(shape: tuple[int, int]) -> int:
    """Return how many networks a sweep puts into one stack."""
    data, run = sides.examples(), sides.runs(*shape, 1)[0]
    parameters = parameter_count(run.architecture(data).widths)
    entry = Entry(run.identity(data), run, parameters, len(data.train), len(data.test))
    return stacks.stack_size(stacks.Job((entry,), data), sides.CORES, ROOM)


def compare(stack: Team, others: list[Team], rounds: int, length: float) -> list[tuple[float, float]]:
    """Return the rates of the stack and of the other team with the best median, round by round."""
    for other in others:
        for ours, theirs in zip(stack.losses, other.losses, strict=True):
            assert not len(theirs) or math.isclose(ours[0], theirs[0], rel_tol=1e-4), (ours, theirs)
    rates: list[list[float]] = []
    start = time.monotonic()
    while len(rates) < 2 or (len(rates) < rounds and time.monotonic() - start < PAIR):
        rates.append([team.rate(length) for team in (stack, *others)])
    ours, *theirs = zip(*rates, strict=True)
    return list(zip(ours, max(theirs, key=statistics.median), strict=True))


def measure(quick: bool, parts: Sequence[str]) -> Answer:
    """Return rates and ratios of all sides at these shapes."""
    heads = ("shape", "networks", "side", "network-steps per second", "of the stack", "stack / side")
    answer, table = Answer(), Table("Stacked training, network-steps per second", heads)
    answer.tables.append(table)
    for shape in (each for each in SHAPES if shape_name(each) in parts):
        count = stack_size(shape)
        with ready("stack", shape, count) as (stack,):
            for name in SIDES:
                row = _row(stack, name, shape, count, quick)
                answer.numbers.append(row)
                cells = [Spread(**row[key]) if row[key] else "" for key in ("rate", "stack", "ratio")]
                table.add(f"D={shape[0]} N={shape[1]}", count, name, cells[0] or row["failed"], *cells[1:])
        _aims(answer, shape)
    return answer


def _row(stack: Team, name: str, shape: tuple[int, int], count: int, quick: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"shape": shape, "networks": count, "side": name, "failed": None}
    with ready(name, shape, count) as others:
        if not others:
            failed = f"an error, or not ready within {PATIENCE:.0f} s"
            return row | {"failed": failed, "rate": None, "stack": None, "ratio": None}
        pairs = compare(stack, others, 2 if quick else 7, 0.3 if quick else 1.2)
    ours, theirs = zip(*pairs, strict=True)
    ratios = [our / their for our, their in pairs]
    spreads = {"rate": Spread.of(theirs), "stack": Spread.of(ours), "ratio": Spread.of(ratios)}
    return row | {key: vars(spread) for key, spread in spreads.items()}


def _aims(answer: Answer, shape: tuple[int, int]) -> None:
    ratios = {row["side"]: row["ratio"]["median"] for row in answer.numbers if row["shape"] == shape and row["ratio"]}
    where = f"D={shape[0]}, N={shape[1]}"
    for side, target in TARGETS.get(shape, {}).items():
        if side in ratios:
            answer.aim(f"stack / {side} at {where} at least {target}", number(ratios[side]), ratios[side] >= target)
    worst = min((side for side in ratios if side != "peak"), key=lambda side: ratios[side])
    answer.aim(f"stack not behind any alternative at {where}", f"{number(ratios[worst])} ({worst})", ratios[worst] >= 1)


if __name__ == "__main__":
    main(__doc__, measure, PARTS)

"""A single network on all cores, against the plain loop at its best, and while another process keeps a core busy.

Every side runs in its own process, and all of them take turns, round by round, after their losses have been compared.
The loop runs on one thread or on all; the one with the better median counts.
"""

import math
import multiprocessing
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from setting import Answer, Spread, Table, main, number, shape_name
from stack import PATIENCE, Team

TARGETS = {(512, 88): 2.5, (128, 177): 1.5, (1000, 249): 1.5}  # over the loop, by depth and width
STEPS = 6  # of a round at least, so that a trial of `gradwalk.nets.pace` falls into one round or two
BUSY = 0.9  # of one thread, with a busy neighbour
WAYS = {
    "lone, all cores": ("Lone", {}),
    "lone, 1 thread": ("Lone", {"threads": 1}),
    "loop, all cores": ("Loop", {}),
    "loop, 1 thread": ("Loop", {"threads": 1}),
}


@contextmanager
def teams(shape: tuple[int, int]) -> Iterator[dict[str, Team]]:
    """Yield all sides, ready and with the same losses."""
    with ExitStack() as stack:
        made = {}
        for name, (kind, options) in WAYS.items():
            made[name] = Team([(kind, options, False)], shape, 1)
            stack.callback(made[name].close)
            assert made[name].ready(time.monotonic() + PATIENCE), f"{name} is not ready"
        expected = made["loop, 1 thread"].losses
        for team in made.values():
            for ours, theirs in zip(team.losses, expected, strict=True):
                assert math.isclose(ours[0], theirs[0], rel_tol=1e-4), (ours, theirs)
        yield made


def _spin() -> None:
    while True:
        pass


@contextmanager
def neighbour() -> Iterator[None]:
    """Keep one core busy."""
    process = multiprocessing.get_context("spawn").Process(target=_spin, daemon=True)
    process.start()
    time.sleep(1.0)
    try:
        yield
    finally:
        process.kill()
        process.join()


def rates(made: dict[str, Team], names: Sequence[str], rounds: int, length: float) -> dict[str, list[float]]:
    """Return the rates of some sides, round by round; a round has a few steps at least."""
    turns = [[made[name].rate(max(length, STEPS * made[name].seconds)) for name in names] for _ in range(rounds)]
    return dict(zip(names, map(list, zip(*turns, strict=True)), strict=True))


def measure(quick: bool, parts: Sequence[str]) -> Answer:
    """Return the rates of all sides at these shapes, and those of the lone network beside a busy process."""
    heads = ("shape", *WAYS, "lone / better loop", "all cores / 1 thread beside a busy process")
    answer, table = Answer(), Table("One network, steps per second", heads)
    answer.tables.append(table)
    for shape, target in ((shape, target) for shape, target in TARGETS.items() if shape_name(shape) in parts):
        with teams(shape) as made:
            alone = rates(made, list(WAYS), 2 if quick else 7, 0.3 if quick else 1.2)
            with neighbour():
                busy = rates(made, list(WAYS)[:2], 2 if quick else 7, 0.3 if quick else 1.2)
        first, _, *loops = alone.values()
        over = Spread.of([our / their for our, their in zip(first, max(loops, key=statistics.median), strict=True)])
        beside = Spread.of([two / one for two, one in zip(*busy.values(), strict=True)])
        spreads = {name: vars(Spread.of(values)) for name, values in alone.items()}
        answer.numbers.append({"shape": shape, "rates": spreads, "over": vars(over), "beside": vars(beside)})
        where = f"D={shape[0]}, N={shape[1]}"
        table.add(where, *(Spread(**each) for each in spreads.values()), over, beside)
        answer.aim(f"lone / loop at {where} at least {target}", number(over.median), over.median >= target)
        claim = f"lone beside a busy process at {where} at least {BUSY} of one thread"
        answer.aim(claim, number(beside.median), beside.median >= BUSY)
    return answer


if __name__ == "__main__":
    main(__doc__, measure, [shape_name(shape) for shape in TARGETS])

"""O1, a claim of our own: random walk initialization goes with other optimizers and with weight decay (section 4)."""

from __future__ import annotations

from gradwalk.figures import Table, optimizers
from gradwalk.figures.loss_by_depth import Contest, contests, loss_of
from gradwalk.report.claims.training import MNIST, too_small
from gradwalk.report.finding import Claim, Finding, Tables, graded, judged

DEEP = 64  # layers that must have been trained for a verdict
NEEDED = ("sgd", "momentum", "adam")


def walk_goes_with_every_method(tables: Tables) -> Finding:
    """Judge O1."""
    table = tables["optimizers"]
    deepest = {name: by_depth[-1] for name, by_depth in contests(optimizers.runs(table)).items()}
    came_out = "; ".join(_words(name, contest) for name, contest in deepest.items())
    parts = [contest.outcome == "walk" for contest in deepest.values()]
    return judged(came_out or "Nothing to compare", _obstacle(table, deepest), lambda: graded(parts))


O1 = Claim(
    name="O1",
    words="Deep networks learn from random walk weights with other optimizers and with weight decay too, and learn "
    "more in the same few steps than from torch’s default.",
    criterion="For each method (an optimizer, with or without weight decay), at the greatest depth: the better of the "
    "random walks has a training loss at least 10 % below chance and 2 % below that from torch’s default. Holds: for "
    "all methods. In part: for some. A loss is the median over the seeds at the best of the learning rates. Undecided: "
    "not on MNIST, fewer than 5,000 examples, fewer than 64 layers, or SGD, momentum, Adam or weight decay missing.",
    figures=("optimizers",),
    judge=walk_goes_with_every_method,
)


def _obstacle(table: Table, deepest: dict[str, Contest]) -> str | None:
    """Return why the table cannot decide the claim, None if it can."""
    if small := too_small(table, MNIST, epochs=0):
        return small
    if not deepest or min(contest.depth for contest in deepest.values()) < DEEP:
        return f"no {DEEP} layers"
    absent = [name for name in NEEDED if not any(each.startswith(name) for each in table["optimizer"])]
    absent += [] if (table["weight_decay"] > 0).any() else ["weight decay"]
    return f"{', '.join(absent)} not run" if absent else None


def _words(name: str, contest: Contest) -> str:
    """Return the losses of both sides at the greatest depth."""
    sides = f"{loss_of(contest.walk, contest.loss)}, {loss_of(contest.peer, contest.peer_loss)}"
    return f"{name} at D = {contest.depth:.0f}: {sides}"

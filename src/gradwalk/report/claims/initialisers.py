"""I1 and I2, claims of our own: when random walk initialization is worth having, and what a remedy adds to it."""

from __future__ import annotations

from collections.abc import Sequence

from gradwalk.figures import Table, initialisers
from gradwalk.figures.loss_by_depth import (
    CHANCE,
    COMPARED,
    LEARNED,
    Contest,
    contests,
    has_remedy,
    loss_of,
    lower_from,
    remedied,
)
from gradwalk.report.claims.training import MNIST, too_small
from gradwalk.report.finding import Claim, Finding, Tables, graded, judged

DEEP, DEEPER = 256, 1000  # layers that must have been trained for a verdict on I1, and on I2


def walk_is_lower_when_deep(tables: Tables) -> Finding:
    """Judge I1."""
    table = tables["initialisers"]
    by_activation = contests(initialisers.runs(table))
    came_out = "; ".join(_words(name, by_depth) for name, by_depth in by_activation.items())
    parts = [lower_from(by_depth) is not None for by_depth in by_activation.values()]
    return judged(came_out, _obstacle(table), lambda: graded(parts))


I1 = Claim(
    name="I1",
    words="From some depth on, random walk initialization reaches a lower training loss in the same few steps than "
    "torch’s default, Xavier, Kaiming, orthogonal and LSUV.",
    criterion="For each activation: there is a depth from which the better of the two random walks has a training "
    "loss at least 2 % below every other initialiser’s, at all depths that were run; where no loss is 10 % below "
    "chance, none is lower. Holds: for all activations. In part: for some. A loss is the median over the seeds at "
    "the best of the learning rates. Undecided: not on MNIST, fewer than 5,000 examples, fewer than 256 layers, or "
    "one of the seven initialisers missing.",
    figures=("initialisers",),
    judge=walk_is_lower_when_deep,
)


def every_activation_learns(tables: Tables) -> Finding:
    """Judge I2."""
    table = tables["initialisers"]
    runs = initialisers.runs(table)
    lowest = remedied(runs)
    came_out = "; ".join(f"{name} {_losses(by_depth)}" for name, by_depth in lowest.items())
    parts = [all(loss <= LEARNED * CHANCE for _, _, loss in by_depth) for by_depth in lowest.values()]
    obstacle = too_small(table, MNIST, epochs=0)
    if obstacle is None and min(max(depth for depth, _, _ in by_depth) for by_depth in lowest.values()) < DEEPER:
        obstacle = f"no {DEEPER} layers of each activation"
    if obstacle is None and not runs["weights"].map(has_remedy).any():
        obstacle = "no remedy was run"
    return judged(came_out, obstacle, lambda: graded(parts))


I2 = Claim(
    name="I2",
    words="With a leak for the depth, plain networks of every activation start to learn in the same few steps at every "
    "depth up to 1000 layers.",
    criterion="For each activation: at all depths that were run, the lowest of the losses from random walk weights, "
    "with or without a remedy, is at least 10 % below chance. Holds: for all activations. In part: for some. A loss is "
    "the median over the seeds at the best of the learning rates. Undecided: not on MNIST, fewer than 5,000 examples, "
    "fewer than 1000 layers of one of the activations, or no remedy.",
    figures=("initialisers",),
    judge=every_activation_learns,
)


def _losses(by_depth: Sequence[tuple[float, str, float]]) -> str:
    """Return the lowest loss at each depth in words."""
    return ", ".join(f"{loss_of(weights, loss)} at D = {depth:.0f}" for depth, weights, loss in by_depth)


def _obstacle(table: Table) -> str | None:
    """Return why the table cannot decide the claim, None if it can."""
    small, missing = too_small(table, MNIST, epochs=0), sorted(set(COMPARED) - set(table["weights"]))
    if small:
        return small
    if table["depth"].max() < DEEP:
        return f"no {DEEP} layers"
    return f"{', '.join(missing)} not run" if missing else None


def _words(name: str, by_depth: Sequence[Contest]) -> str:
    """Return where the walk is lower, tied or higher, and the losses at the greatest depth."""
    start, last = lower_from(by_depth), by_depth[-1]
    where = "at no depth up to the last" if start is None else f"from D = {start:.0f} on"
    depths = {
        word: ", ".join(f"{contest.depth:.0f}" for contest in by_depth if contest.outcome == outcome)
        for outcome, word in (("walk", "lower"), ("tied", "tied"), ("peer", "higher"), ("none", "none learned"))
    }
    outcomes = ", ".join(f"{word} at {listed}" for word, listed in depths.items() if listed)
    ends = f"{loss_of(last.walk, last.loss)} against {loss_of(last.peer, last.peer_loss)}"
    return f"{name} {where} ({outcomes}; D = {last.depth:.0f}: {ends})"

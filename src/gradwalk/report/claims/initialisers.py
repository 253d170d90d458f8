"""I1, a claim of our own: when random walk initialization is worth having."""

from __future__ import annotations

from collections.abc import Sequence

from gradwalk.figures import Table, initialisers
from gradwalk.figures.loss_by_depth import COMPARED, Contest, contests, loss_of, lower_from
from gradwalk.report.claims.training import MNIST, too_small
from gradwalk.report.finding import Claim, Finding, Tables, graded, judged

DEEP = 256  # layers that must have been trained for a verdict


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

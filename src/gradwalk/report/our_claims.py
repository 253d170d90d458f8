"""I1, a claim of our own and not the paper's: when the random walk's initial weights are worth having."""

from __future__ import annotations

from gradwalk.data import title
from gradwalk.figures.initialisers import ACTIVATIONS, COMPARED, Contest, contests, lower_from, told
from gradwalk.figures.table import Table
from gradwalk.report.extent import LEAST_EXAMPLES, MNIST, Extent
from gradwalk.report.finding import Finding, Tables, graded, judged, not_run

DEEP = 256  # layers that must have been trained for a verdict


def walk_is_lower_when_deep(tables: Tables) -> Finding:
    """I1. For each activation: there is a depth from which on the better of the two random walks has a training loss
    at least 2 % below every peer's, at all depths that were run; where nobody is 10 % below chance, nobody is lower.
    Holds: for all activations. In part: for some.

    A loss is the median over the seeds at the best of the learning rates. Not run: not on MNIST, fewer than 5,000
    examples, no 256 layers, or one of the seven initialisers missing.
    """
    table = tables.get("initialisers")
    if table is None:
        return not_run("initialisers")
    fought = contests(table)
    said = "; ".join(_said(name, each) for name, each in fought.items())
    return judged(said, _lacking(table), lambda: graded([lower_from(each) is not None for each in fought.values()]))


def _lacking(table: Table) -> str | None:
    """Why the table says nothing about the claim, None where it does."""
    found, missing = Extent.of(table), set(COMPARED) - set(table["weights"].tolist())
    if found.data != MNIST:
        return f"trained on {title(found.data)}, not on {title(MNIST)}"
    if found.examples < LEAST_EXAMPLES:
        return f"only {found.examples:,.0f} examples"
    if table["depth"].max() < DEEP:
        return f"no {DEEP} layers"
    return f"{', '.join(sorted(missing))} not run" if missing else None


def _said(name: str, fought: list[Contest]) -> str:
    """Where the walk is lower, tied or higher, and the losses at the greatest depth."""
    start, last = lower_from(fought), fought[-1]
    words = "at no depth to the last" if start is None else f"from D = {start:.0f} on"
    depths = {
        word: ", ".join(f"{each.depth:.0f}" for each in fought if each.outcome == outcome)
        for outcome, word in (("walk", "lower"), ("tied", "tied"), ("peer", "higher"), ("none", "nobody learned"))
    }
    by_depth = ", ".join(f"{word} at {each}" for word, each in depths.items() if each)
    ends = f"{told(last.walk, last.loss)} against {told(last.peer, last.peer_loss)}"
    return f"{ACTIVATIONS.get(name, name)} {words} ({by_depth}; D = {last.depth:.0f}: {ends})"

"""What was found, in three sentences that are computed: about the walks, about training, about the claims."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gradwalk import figures
from gradwalk.figures.outcomes import best, data_title, example_count, finished, last_epochs
from gradwalk.report.claims.walks import C1
from gradwalk.report.finding import FAILS, HOLDS, IN_PART, Tables, Verdict

if TYPE_CHECKING:
    from pandas import DataFrame, Series

LEARNED = 0.5  # of the error of a constant answer; a network with a lower one has learned something


def opening(tables: Tables, verdicts: Iterable[Verdict], committed: Iterable[Verdict]) -> list[str]:
    """Return the three sentences.

    verdicts: on the claims of the paper, from these tables. committed: those of the longest committed runs.
    """
    return [_walks(tables), _training(tables), _claims(list(verdicts), list(committed))]


def _walks(tables: Tables) -> str:
    if "fig1" not in tables:
        return "The random walk itself (Figure 1) was not simulated here."
    table = tables["fig1"]
    depth, walks = (int(table.facts[name]) for name in ("depth", "walks"))
    drifts = "has no drift" if C1.finding(tables).verdict == HOLDS else "drifts"
    mean = f"{table['mean'][-1]:+.2f} ± {table['standard_error'][-1]:.2f}".replace("-", "−")
    ratio = table["variance"][-1] / table["printed"][-1]
    return (
        f"At the predicted gain the log-norm of the gradient {drifts}: after {depth} layers its mean over {walks:,} "
        f"random networks is {mean}, and its variance is {ratio:.2f} times the predicted one."
    )


def _training(tables: Tables) -> str:
    runs = [run for run in (_deepest(table) for table in _classifiers(tables)) if run is not None]
    if not runs:
        return "No network was trained here to classify anything, or none learned."
    run = max(runs, key=lambda each: each["depth"])
    return (
        f"The deepest network that learned has {run['depth']:.0f} layers: it makes {100 * run['train_error']:.1f} % "
        f"mistakes on its {run['train_examples']:,.0f} training examples of {run['title']} after {run['epoch']:.0f} "
        f"epochs, where a constant answer makes {100 * run['constant_error']:.1f} %."
    )


def _classifiers(tables: Tables) -> list[DataFrame]:
    """Return the runs of the paper's trained figures that classify, each in the state after its last epoch."""
    trained = [name for name in tables if isinstance(figures.FIGURES[name], figures.TrainedFigure)]
    runs = [last_epochs(finished(tables[name])) for name in trained if figures.FIGURES[name].in_paper]
    return [rows for rows in runs if not rows.empty and example_count(rows) is not None]


def _deepest(runs: DataFrame) -> Series[Any] | None:
    """Return the best run of the greatest depth at which one learned."""
    learned = runs[runs["train_error"] < LEARNED * runs["constant_error"]]
    return best(learned[learned["depth"] == learned["depth"].max()].assign(title=data_title(runs)))


def _claims(verdicts: list[Verdict], committed: list[Verdict]) -> str:
    counts = {verdict: verdicts.count(verdict) for verdict in _DECIDED}
    holds, in_part, fails = (f"{_number(count)} {_VERBS[verdict][count > 1]}" for verdict, count in counts.items())
    undecided = _undecided(len(verdicts) - sum(counts.values()))
    settled = sum(verdict in _DECIDED for verdict in committed)
    more = f" (the longest committed runs decide {settled})" if settled > sum(counts.values()) else ""
    return f"Of the paper’s {len(verdicts)} claims {holds}, {in_part} and {fails}{undecided}{more}."


def _undecided(count: int) -> str:
    them = "them" if count > 1 else "it"
    return f"; {_number(count)} cannot be decided at this scale, which does not refute {them}" if count else ""


_DECIDED: tuple[Verdict, ...] = (HOLDS, IN_PART, FAILS)
_VERBS = {HOLDS: ("holds", "hold"), IN_PART: ("holds in part", "hold in part"), FAILS: ("fails", "fail")}


def _number(count: int) -> str:
    """Return a number of claims in words.

    >>> _number(0), _number(1), _number(7)
    ('none', 'one', '7')
    """
    return {0: "none", 1: "one"}.get(count, str(count))

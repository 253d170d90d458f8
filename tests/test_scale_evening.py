"""The specs of scale evening can decide their claims, whatever comes out, within an evening on 2 cores."""

import math
from collections.abc import Callable
from functools import cache

import pytest
from helpers.report_tables import MADE, PARAMS, joined, trained

from gradwalk.figures import FIGURES, Table
from gradwalk.report import CLAIMS
from gradwalk.report.finding import FAILS, HOLDS
from gradwalk.sweep import Spec
from gradwalk.train import Run

TRAINED = ("fig3", "fig4a", "fig4b", "fig4c", "fig4d")
DATA = {"mnist": ("mnist", 60_000), "timit": ("TIMIT sample", 39_000)}
SPEED = 70e9  # operations per second: scale laptop on 2 idle cores


@cache
def runs(figure: str) -> list[Run]:
    return Spec.load(FIGURES[figure].spec_text("evening")).runs()


def came_out(figure: str, error: Callable[[Run], float], **more: float) -> Table:
    """Return the table of a figure at scale evening whose runs have these errors; more: further columns."""
    errors = [error(run) for run in runs(figure)]
    return Table.of(table(figure).frame.assign(train_error=errors, train_loss=errors, **more), made=MADE)


@cache
def table(figure: str) -> Table:
    """Return the table of a figure at scale evening, with the same error in all rows."""
    return joined([_row(figure, run) for run in runs(figure)])


def _row(figure: str, run: Run) -> Table:
    data, examples = DATA[run.data]
    grid = {name: [getattr(run, name)] for name in ("activation", "depth", "gain", "rate_in", "rate_out", "seed")}
    size = {"data": data, "examples": run.examples or examples, "share": run.params / PARAMS[figure]}
    how = {"epochs": run.epochs, "decay": run.decay, "scaling": run.scaling}
    return trained(figure, lambda **_: 0.5, **grid, **size, **how)


def best_gain(tanh: float, relu: float) -> Callable[[Run], float]:
    return lambda run: 0.002 + 0.1 * abs(run.gain - {"tanh": tanh, "relu": relu}[run.activation])


def by_depth(**errors: float) -> Callable[[Run], float]:
    return lambda run: errors[f"D{run.depth}"]


def by_slope(equal: float, unequal: float, centre: float) -> Callable[[Run], float]:
    """Return errors with equal and with unequal rates, least where their geometric mean is `centre`."""

    def error(run: Run) -> float:
        level = abs(math.log(math.sqrt(run.rate_in * run.rate_out) / centre))
        return (equal if run.rate_in == run.rate_out else unequal) * (1 + level / 10)

    return error


PIXELS = {"pca_error": 0.12, "constant_error": 0.5}
CASES = [
    ("C6", "fig3", best_gain(1.2, 1.45), best_gain(1.0, 1.7), {}),
    ("C12", "fig3", lambda run: 0.0, lambda run: 0.5, {}),
    (
        "C7",
        "fig4a",
        by_depth(D2=0.001, D3=0.005, D5=0.002, D9=0.002, D19=0.005, D37=0.009),
        by_depth(D2=0.003, D3=0.001, D5=0.004, D9=0.004, D19=0.005, D37=0.009),
        {},
    ),
    (
        "C8",
        "fig4b",
        by_depth(D4=0.05, D8=0.06, D16=0.07, D30=0.08, D60=0.1),
        by_depth(D4=0.05, D8=0.04, D16=0.07, D30=0.08, D60=0.2),
        PIXELS,
    ),
    (
        "C10",
        "fig4d",
        by_depth(D4=0.02, D7=0.01, D15=0.0102, D30=0.03),
        by_depth(D4=0.01, D7=0.02, D15=0.03, D30=0.05),
        {},
    ),
    ("C11", "fig4a", by_slope(0.4, 0.1, 0.08), by_slope(0.12, 0.1, 0.08), {}),
    ("C11", "fig4d", by_slope(0.4, 0.1, 0.02), by_slope(0.1, 0.1, 0.02), {}),
]


@pytest.mark.parametrize(
    ("claim", "figure", "good", "bad", "more"), CASES, ids=[f"{one}-{two}" for one, two, *_ in CASES]
)
def test_the_runs_of_a_figure_decide_its_claims_either_way(claim, figure, good, bad, more) -> None:
    assert CLAIMS[claim].finding({figure: came_out(figure, good, **more)}).verdict == HOLDS
    assert CLAIMS[claim].finding({figure: came_out(figure, bad, **more)}).verdict == FAILS


def test_all_figures_together_take_at_most_six_hours() -> None:
    hours = sum(map(_operations, (run for figure in TRAINED for run in runs(figure)))) / SPEED / 3600
    assert hours < 6


def _operations(run: Run) -> float:
    """Return 6 operations per parameter and example trained on, and 2 to measure both splits after each epoch."""
    examples = run.examples or DATA[run.data][1]
    return run.epochs * run.params * (6 * examples + 2 * (examples + 10_000))


@pytest.mark.parametrize("figure", TRAINED)
def test_rates_run_down_as_the_papers_do_and_other_seeds_than_before_are_used(figure: str) -> None:
    for run in runs(figure):
        assert run.epochs >= 20
        assert 0.07 < run.decay**run.epochs < 0.1
        assert run.gain_in is None  # g in every layer
        assert run.seed > 0

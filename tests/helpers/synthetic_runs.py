"""Runs of digits with made-up mistakes, and the tables of them."""

import itertools
from collections.abc import Callable, Iterable

from gradwalk.data import Datasets
from gradwalk.figures import Table, run_table
from gradwalk.sweep import Result
from gradwalk.train import Epoch, Run

EXAMPLES = 1000  # of digits, on which every synthetic run is supposed to have trained
DATASETS = Datasets()
DIGITS = DATASETS.load("digits", EXAMPLES)
HELD_OUT = len(DIGITS.test)


def result(
    errors: Iterable[float],
    diverged: int | None = None,
    status: str = "done",
    clipped: Iterable[int] = (),
    **settings: object,
) -> Result:
    """Return a run with so many mistakes after each epoch (or, in reconstruction, with these errors).

    clipped: the clipped steps of each epoch, 1 if not given.
    """
    run = Run(**{"data": "digits", "examples": EXAMPLES, "params": 2e4, "rate_in": 0.1, "rate_out": 0.1} | settings)
    classify, counts = run.task == "classify", itertools.chain(clipped, itertools.repeat(1))
    epochs = tuple(
        Epoch(place, error / EXAMPLES, round(error), error / EXAMPLES, round(error) // 5, count, 2.0)
        if classify
        else Epoch(place, error, 0, 2 * error, 0, count, 2.0)
        for place, error, count in zip(itertools.count(1), errors, counts, strict=False)
    )
    how = status if diverged is None else "diverged"
    return Result(run, "", how, epochs, diverged, train_examples=EXAMPLES, test_examples=HELD_OUT)


def by_run(*results: Result) -> Table:
    """Return the table with one row per run."""
    return run_table.by_run(results, DATASETS)


def runs(mistakes: Callable[..., float | None], **grid: list) -> list[Result]:
    """Return one run per combination; `mistakes` returns None for one that diverges in its first epoch."""
    results = []
    for values in itertools.product(*grid.values()):
        settings = dict(zip(grid, values, strict=True))
        count = mistakes(**settings)
        results.append(result([], diverged=1, **settings) if count is None else result([count], **settings))
    return results

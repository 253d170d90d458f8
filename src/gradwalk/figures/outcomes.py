"""What the outcomes of many runs come to: the best run, means over g, and what the schedule of rates is worth.

An error is the training error after the last epoch; a run that diverged has none (NaN) and is never the best.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradwalk.activations import Array
from gradwalk.data import title
from gradwalk.figures.table import Table

Line = tuple[str, str]
Mask = NDArray[np.bool_]

NEAR_ZERO = 0.01  # a share of mistakes that we call near zero


def select(table: Table, rows: Mask) -> Table:
    """Return those rows."""
    return Table({name: column[rows] for name, column in table.columns.items()}, table.facts)


def groups(table: Table, *names: str) -> Iterator[tuple[tuple[Any, ...], Table]]:
    """Give each combination of values that these columns have, in their order, with its rows.

    >>> [values for values, _ in groups(Table({"depth": np.array([8.0, 4.0, 8.0])}), "depth")]
    [(4.0,), (8.0,)]
    """
    for values in sorted(set(zip(*(table[name].tolist() for name in names), strict=True))):
        rows = np.logical_and.reduce([table[name] == value for name, value in zip(names, values, strict=True)])
        yield values, select(table, rows)


def finished(table: Table) -> Table:
    """Return the runs that were done or diverged: all that a figure can show."""
    return select(table, np.isin(table["status"], ("done", "diverged")))


def least(table: Table) -> float:
    """Return the least error, NaN where every run diverged."""
    errors = table["train_error"][~np.isnan(table["train_error"])]
    return float(errors.min()) if len(errors) else np.nan


def best(table: Table) -> Table | None:
    """Return the run of least error, of equal ones that of least loss, as a table of one row; None if all diverged."""
    if np.isnan(least(table)):
        return None
    order = np.lexsort((table["train_loss"], table["train_error"]))  # NaN comes last
    return Table({name: column[order[:1]] for name, column in table.columns.items()}, table.facts)


def averages(table: Table) -> Table:
    """Return a row for each depth and pair of learning rates: the mean error over g (and seeds, if several).

    It is the mean of the errors of the runs that did not diverge, NaN where all did; runs and diverged count both.
    """
    rows = []
    for (depth, rate_in, rate_out), members in groups(table, "depth", "rate_in", "rate_out"):
        good = members["train_error"][~np.isnan(members["train_error"])]
        loss = members["train_loss"][~np.isnan(members["train_loss"])]
        means = [float(each.mean()) if len(each) else np.nan for each in (good, loss)]
        rows.append((depth, rate_in, rate_out, *means, len(members["depth"]), len(members["depth"]) - len(good)))
    names = ("depth", "rate_in", "rate_out", "train_error", "train_loss", "runs", "diverged")
    return Table({name: np.array(cells) for name, cells in zip(names, zip(*rows, strict=True), strict=True)})


def dependable(points: Table) -> Table:
    """Return the averages of which no member diverged: those that can be called the best."""
    return select(points, points["diverged"] == 0)


def ratio(above: float, below: float, examples: float | None) -> float:
    """Return above / below; no mistakes at all count as half a mistake.

    >>> ratio(0.01, 0.0, examples=1000)
    20.0
    """
    half = 0.5 / examples if examples else 0.0
    over, under = (max(value, half) if value == value else np.nan for value in (above, below))
    return float(np.divide(over, under)) if under else np.nan


def schedule(table: Table, examples: float | None) -> dict[str, float]:
    """Return the least error with equal learning rates, with unequal ones, and how many times smaller the latter is."""
    equal = table["rate_in"] == table["rate_out"]
    even, uneven = least(select(table, equal)), least(select(table, ~equal))
    return {"equal_rates": even, "unequal_rates": uneven, "schedule_ratio": ratio(even, uneven, examples)}


def schedule_lines(found: dict[str, float], examples: float | None, where: str = "") -> list[Line]:
    """Return what `schedule` found, in words."""
    even, uneven = (percent(found[name], examples) for name in ("equal_rates", "unequal_rates"))
    return [
        (f"{where}best with equal rates", even),
        (f"{where}best with unequal rates", uneven),
        (f"{where}equal over unequal", factor(found["schedule_ratio"])),
    ]


def example_count(table: Table) -> float | None:
    """Return how many examples the shares of mistakes are of; None for reconstruction errors."""
    return None if table["task"][0] == "reconstruct" else float(table["train_examples"].max())


def data_title(table: Table) -> str:
    """Return the name of the data as it is written in a title."""
    return title(str(table["data"][0]))


def overview(table: Table, paper: str) -> list[Line]:
    """Return the data, the runs and how they ended, in words; `paper` says what the paper has instead."""
    runs = len(table["status"])
    counts = [(status, int((table["status"] == status).sum())) for status in ("done", "diverged", "failed")]
    train, test = (table[name][0] for name in ("train_examples", "test_examples"))
    return [
        ("data", f"{data_title(table)}: {train:,.0f} to train on, {test:,.0f} held out"),
        ("the paper", paper),
        ("runs", f"{runs}: " + ", ".join(f"{count} {status}" for status, count in counts if count)),
        ("error of a constant answer", percent(float(table["constant_error"][0]), example_count(table))),
        ("width", _span(table["width"])) if np.isnan(table["params"]).all() else ("parameters", _span(table["params"])),
        ("epochs", f"{np.nanmax(table['epoch']):.0f}"),
    ]


def percent(error: float, examples: float | None) -> str:
    """Return an error in words: a share as a percentage with the mistakes it is, a squared error as it is.

    >>> percent(0.0125, 10000), percent(0.25, None), percent(float("nan"), None)
    ('1.25 % (125 mistakes)', '0.2500', 'none')
    """
    if np.isnan(error):
        return "none"
    return f"{error:.4f}" if examples is None else f"{100 * error:.2f} % ({_mistakes(error * examples)})"


def factor(ratio: float) -> str:
    """Return a ratio in words.

    >>> factor(2.0004), factor(4503.5), factor(float("nan"))
    ('2', '4,504', 'none')
    """
    if np.isnan(ratio):
        return "none"
    return f"{ratio:,.0f}" if ratio >= 1000 else f"{ratio:.3g}"


def unique(column: Array) -> Sequence[float]:
    """Return the values of a column, each once, in their order."""
    return sorted(set(column.tolist()))


def _mistakes(count: float) -> str:
    if abs(count - round(count)) > 1e-6:
        return f"{count:,.1f} mistakes"
    return "1 mistake" if round(count) == 1 else f"{count:,.0f} mistakes"


def _span(column: Array) -> str:
    low, high = np.nanmin(column), np.nanmax(column)
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"

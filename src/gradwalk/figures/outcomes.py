"""What many runs amount to: the best run, means over g, and what the schedule of learning rates is worth.

All functions take rows of a trained figure's table. An error is the training error after the last epoch; a run that
diverged has none (NaN) and is never the best.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.data import title
from gradwalk.figures.estimate import Estimate, estimate
from gradwalk.figures.table import Table

if TYPE_CHECKING:
    from pandas import DataFrame, Series

Line = tuple[str, str]

# what identifies a run within a table
RUN = ("activation", "weights", "optimizer", "weight_decay", "depth", "gain", "rate_in", "rate_out", "seed")
NEAR_ZERO = 0.01  # the share of mistakes up to which an error is called near zero


@dataclass(frozen=True)
class Schedule:
    """The least errors with equal and with unequal learning rates; NaN where every such run diverged."""

    equal: float
    unequal: float
    examples: float | None

    @property
    def ratio(self) -> float:
        """How many times larger the error with equal rates is."""
        return ratio(self.equal, self.unequal, self.examples)

    def lines(self, where: str = "") -> list[Line]:
        """Return both errors and their ratio in words, each label beginning with `where`."""
        return [
            (f"{where}best with equal rates", percent(self.equal, self.examples)),
            (f"{where}best with unequal rates", percent(self.unequal, self.examples)),
            (f"{where}equal over unequal", factor(self.ratio)),
        ]


def finished(table: Table) -> DataFrame:
    """Return the runs that completed or diverged: those that a figure can show."""
    return table.frame[table.frame["status"].isin(("done", "diverged"))]


def grouped(rows: DataFrame, *names: str) -> Iterator[tuple[Any, DataFrame]]:
    """Yield the values of these columns in ascending order, each with its rows: one value, or a tuple of several.

    >>> [depth for depth, _ in grouped(Table.of({"depth": [8, 4, 8]}).frame, "depth")]
    [4, 8]
    """
    yield from rows.groupby(names[0] if len(names) == 1 else list(names), dropna=False)


def least(rows: DataFrame) -> float:
    """Return the least error, NaN if every run diverged."""
    return float(rows["train_error"].min())


def best(rows: DataFrame) -> Series[Any] | None:
    """Return the run of least error, among equal ones that of least loss; None if every run diverged."""
    converged = rows.dropna(subset=["train_error"])
    if converged.empty:
        return None
    return converged.sort_values(["train_error", "train_loss"], kind="stable").iloc[0]


def last_epochs(rows: DataFrame) -> DataFrame:
    """Return the last row of each run, given one row per run and epoch in order; without errors if it diverged."""
    return rows.groupby(list(RUN), dropna=False).tail(1)


def averages(rows: DataFrame, *apart: str) -> DataFrame:
    """Return the mean error over g (and seeds, if several) for each depth and pair of learning rates.

    apart: further columns whose values are not averaged over. The mean is over the runs that did not diverge, NaN if
    all did. `runs` counts all of them, `diverged` those lost. `over_seeds` is the standard error of the mean over the
    seeds, NaN with a single one.
    """
    keys = ["depth", *apart, "rate_in", "rate_out"]
    groups = rows.groupby(keys)
    points = groups[["train_error", "train_loss"]].mean()
    points["runs"] = groups.size()
    points["diverged"] = points["runs"] - groups["train_error"].count()
    points["over_seeds"] = rows.groupby([*keys, "seed"])["train_error"].mean().groupby(keys).sem()
    return points.reset_index()


def least_estimate(points: DataFrame, examples: float | None) -> Estimate:
    """Return the least of these averages with its standard error, an infinite one if there is none."""
    order = np.lexsort((points["train_loss"], points["train_error"]))  # NaN last
    first = points.iloc[order[0]] if len(order) else None
    if first is None or np.isnan(first["train_error"]):
        return Estimate(math.inf)
    return estimate(first["train_error"], examples, first["runs"], first["over_seeds"])


def dependable(points: DataFrame) -> DataFrame:
    """Return the averages without a diverged member: those that can be called the best."""
    return points[points["diverged"] == 0]


def partly_diverged(points: DataFrame) -> Series[bool]:
    """Return which averages lack some of their members, but not all."""
    return (points["diverged"] > 0) & (points["diverged"] < points["runs"])


def ratio(above: float, below: float, examples: float | None) -> float:
    """Return above / below, where no mistakes at all count as half a mistake.

    >>> ratio(0.01, 0.0, examples=1000)
    20.0
    """
    half = 0.5 / examples if examples else 0.0
    over, under = (max(value, half) if value == value else np.nan for value in (above, below))
    return float(np.divide(over, under)) if under else np.nan


def schedule(rows: DataFrame, examples: float | None) -> Schedule:
    """Return the least errors with equal and with unequal learning rates."""
    equal = rows["rate_in"] == rows["rate_out"]
    return Schedule(least(rows[equal]), least(rows[~equal]), examples)


def example_count(rows: DataFrame) -> float | None:
    """Return the number of examples that the shares of mistakes refer to; None for reconstruction errors."""
    return None if rows["task"].iloc[0] == "reconstruct" else float(rows["train_examples"].max())


def constant_error(rows: DataFrame) -> float:
    """Return the error of a constant answer."""
    return float(rows["constant_error"].iloc[0])


def pca_error(rows: DataFrame) -> float:
    """Return the error of PCA with as many components as the auto-encoder's code has units."""
    return float(rows["pca_error"].iloc[0])


def clipping(rows: DataFrame) -> str:
    """Return how often gradients were clipped, in words, given one row per run or one per run and epoch."""
    per_epoch = np.ceil(rows["train_examples"] / rows["batch"])
    runs = rows.assign(steps=rows["epoch"] * per_epoch).groupby(list(RUN), dropna=False)
    clipped, steps = runs["clipped"].sum(), runs["steps"].max()
    if not steps.sum() > 0:
        return "no steps"
    share, ever = clipped.sum() / steps.sum(), (clipped > 0).mean()
    return f"{100 * share:.2g} % of the steps, in {100 * ever:.0f} % of the runs"


def data_title(rows: DataFrame) -> str:
    """Return the name of the data as people write it."""
    return title(str(rows["data"].iloc[0]))


def endings(runs: DataFrame) -> str:
    """Return the number of runs and how they ended, in words.

    >>> endings(Table.of({"status": ["done", "failed", "done"]}).frame)
    '3: 2 done, 1 failed'
    """
    counts = [(status, int((runs["status"] == status).sum())) for status in ("done", "diverged", "failed")]
    return f"{len(runs)}: " + ", ".join(f"{count} {status}" for status, count in counts if count)


def overview(runs: DataFrame, paper: str) -> list[Line]:
    """Return the data, the runs and how they ended, in words; `paper` is the paper's counterpart."""
    train, test = (runs[name].iloc[0] for name in ("train_examples", "test_examples"))
    sized_by = "width" if runs["params"].isna().all() else "params"
    return [
        ("data", f"{data_title(runs)}: {train:,.0f} to train on, {test:,.0f} held out"),
        ("the paper", paper),
        ("runs", endings(runs)),
        ("error of a constant answer", percent(constant_error(runs), example_count(runs))),
        ("width" if sized_by == "width" else "parameters", _span(runs[sized_by])),
        ("epochs", f"{runs['epoch'].max():.0f}"),
    ]


def percent(error: float, examples: float | None) -> str:
    """Return an error in words: a share as a percentage and a number of mistakes, a squared error as a number.

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


def unique(values: Iterable[Any]) -> list[Any]:
    """Return the distinct values in ascending order."""
    return sorted(set(values))


def listed(values: Iterable[float], digits: str = "g") -> str:
    """Return the distinct numbers in ascending order, comma-separated, without NaN."""
    return ", ".join(f"{value:{digits}}" for value in unique(value for value in values if value == value))


def _mistakes(count: float) -> str:
    if abs(count - round(count)) > 1e-6:
        return f"{count:,.1f} mistakes"
    return "1 mistake" if round(count) == 1 else f"{count:,.0f} mistakes"


def _span(column: Series[Any]) -> str:
    low, high = column.min(), column.max()
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"

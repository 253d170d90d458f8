"""The runs behind a point, in the words that appear when a pointer rests on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradwalk.figures.outcomes import example_count, percent

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    Run = Series[Any]


def settings(run: Run) -> str:
    """Return a run's settings in two lines."""
    first = f"{run['activation']}, g = {run['gain']:g}, D = {run['depth']:.0f}, N = {run['width']:.0f}"
    rates = f"λ in {run['rate_in']:g}, λ out {run['rate_out']:g}"
    return f"{first}<br>{rates}, {run['weights']} weights, seed {run['seed']:.0f}"


def error(train_error: float, examples: float | None) -> str:
    """Return a training error, or that the run diverged."""
    return percent(train_error, examples) if train_error == train_error else "diverged"


def outcome(run: Run) -> str:
    """Return a run's settings, its training error, and its error on held-out data."""
    examples = None if run["task"] == "reconstruct" else run["train_examples"]
    lines = [settings(run), f"training error {error(run['train_error'], examples)}"]
    if run["test_error"] == run["test_error"]:
        lines.append(f"held out {percent(run['test_error'], examples and run['test_examples'])}")
    return "<br>".join(lines)


def members(runs: DataFrame) -> str:
    """Return the mean error over g of runs that have all other settings in common, and the error of each."""
    first, examples = runs.iloc[0], example_count(runs)
    size = f"D = {first['depth']:.0f}, N = {first['width']:.0f}"
    head = f"{size}, λ in {first['rate_in']:g}, λ out {first['rate_out']:g}"
    lines = [f"g = {g:g}: {error(e, examples)}" for g, e in zip(runs["gain"], runs["train_error"], strict=True)]
    return "<br>".join([head, f"mean {percent(float(runs['train_error'].mean()), examples)}", *lines])

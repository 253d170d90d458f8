"""From the results of a sweep to the table of a figure: one row per run, or one row per run and epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.figures.table import Table

CODE = 30  # units of the paper's auto-encoder's code

if TYPE_CHECKING:  # a table is read without torch, so that a figure redraws without it
    from gradwalk.data import Dataset, Datasets
    from gradwalk.sweep import Result
    from gradwalk.train import Epoch, Run

_SETTINGS = (
    *("task", "scaling", "activation", "weights", "optimizer", "weight_decay", "depth"),
    *("rate_in", "rate_out", "decay", "batch", "epochs", "seed"),
)


def by_run(results: Sequence[Result], datasets: Datasets) -> Table:
    """Return a table with one row per run: its settings, how it ended, and its final errors, NaN if it diverged.

    train_error and test_error are shares of mistakes, or mean squared errors in reconstruction; lowest_error is the
    least training error after any epoch. diverged: the epoch in which the run diverged. epochs: how many were to be
    trained, epoch: how many were. clipped: the steps with a clipped gradient in all epochs, clipped_first and
    clipped_last those up to the first measurement and before the last one. seconds: of all epochs.
    """
    rows = []
    settings = _settings_by_run(results, datasets)
    for result in results:
        last = result.epochs[-1] if result.status == "done" else None
        row = _row(result, settings[result.run], last)
        errors = [_errors(result, epoch)["train_error"] for epoch in result.epochs]
        row |= {"lowest_error": min(errors, default=np.nan), "epoch": result.epochs_done}
        row |= {"seconds": sum(epoch.seconds for epoch in result.epochs)} | _clipped(result)
        rows.append(row)
    return Table.of(rows)


def by_epoch(results: Sequence[Result], datasets: Datasets) -> Table:
    """Return a table with one row per run and epoch; a run that diverged ends with a row without errors."""
    rows = []
    settings = _settings_by_run(results, datasets)
    for result in results:
        rows += [_row(result, settings[result.run], epoch) for epoch in result.epochs]
        if result.diverged is not None or not result.epochs:
            rows.append(_row(result, settings[result.run], None))
    return Table.of(rows)


def constant_error(data: Dataset, task: str) -> float:
    """Return the training error of the best constant answer: the most frequent class, or the mean input."""
    if task == "classify":
        return 1 - float(np.bincount(data.train.labels).max()) / len(data.train)
    return float(data.train.inputs(np.arange(len(data.train))).var(axis=0, dtype=np.float64).mean())


def pca_error(data: Dataset, components: int = CODE) -> float:
    """Return the mean squared error of the training inputs after their projection on so many principal components."""
    inputs = data.train.inputs(np.arange(len(data.train))).astype(np.float64)
    inputs -= inputs.mean(axis=0)
    variances = np.linalg.eigvalsh(inputs.T @ inputs / len(inputs))
    return float(variances[:-components].sum() / inputs.shape[1])


def _settings_by_run(results: Sequence[Result], datasets: Datasets) -> dict[Run, dict[str, Any]]:
    """Return everything that a row contains besides results: a run's data, its settings and its width."""
    runs = dict.fromkeys(result.run for result in results)
    yardsticks: dict[tuple[int, str], dict[str, float]] = {}
    rows = {}
    for run in runs:
        data = datasets.load(run.data, run.examples, run.scaling)
        key = id(data), run.task
        if key not in yardsticks:
            yardsticks[key] = _yardsticks(data, run.task)
        rows[run] = _settings(run, data) | yardsticks[key]
    return rows


def _yardsticks(data: Dataset, task: str) -> dict[str, float]:
    pca = pca_error(data) if task == "reconstruct" else np.nan
    return {"constant_error": constant_error(data, task), "pca_error": pca}


def _settings(run: Run, data: Dataset) -> dict[str, Any]:
    widths = run.architecture(data).widths
    examples = {"data": data.name, "train_examples": len(data.train), "test_examples": len(data.test)}
    settings = {name: getattr(run, name) for name in _SETTINGS}
    numbers = {"params": _number(run.params), "clip": _number(run.clip), "width": max(widths[1:-1])}
    return examples | settings | numbers | _gains(run, widths)


def _gains(run: Run, widths: Sequence[int]) -> dict[str, float]:
    """Return the gains of the first layer and of the hidden ones, NaN for weights that take none."""
    if run.gain is not None:
        return {"gain": run.gain, "gain_in": run.gain_in or run.gain}
    gains = run.gains(tuple(widths))
    if gains is None:
        return {"gain": np.nan, "gain_in": np.nan}
    return {"gain": gains.gain, "gain_in": gains.gain_in}


def _clipped(result: Result) -> dict[str, float]:
    """Return the number of clipped steps in all epochs, in the first and in the last one."""
    counts = [epoch.clipped for epoch in result.epochs]
    first, last = (counts[0], counts[-1]) if counts else (np.nan, np.nan)
    return {"clipped": sum(counts), "clipped_first": first, "clipped_last": last}


def _row(result: Result, settings: dict[str, Any], epoch: Epoch | None) -> dict[str, Any]:
    """Return a run's settings and its results after an epoch, None where it diverged or failed."""
    ended = {"status": result.status, "diverged": _number(result.diverged)}
    measured = {"epoch": _number(result.diverged), "clipped": np.nan, "seconds": np.nan}
    if epoch is not None:
        measured = {name: getattr(epoch, name) for name in measured}
    return settings | ended | measured | _errors(result, epoch)


def _errors(result: Result, epoch: Epoch | None) -> dict[str, float]:
    """Return loss, mistakes and error of both splits; a reconstruction has no mistakes, and its error is the loss."""
    errors: dict[str, float] = {}
    for split, examples in (("train", result.train_examples), ("test", result.test_examples)):
        loss = mistakes = error = np.nan
        if epoch is not None:
            loss = error = getattr(epoch, f"{split}_loss")
        if epoch is not None and result.run.task == "classify":
            mistakes = getattr(epoch, f"{split}_mistakes")
            error = mistakes / examples
        errors |= {f"{split}_error": error, f"{split}_mistakes": mistakes, f"{split}_loss": loss}
    return errors


def _number(value: float | None) -> float:
    return np.nan if value is None else value

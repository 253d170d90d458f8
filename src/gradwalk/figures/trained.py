"""From a spec to a table: what a trained figure runs, and what came out, with a row a run or a row a run and epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk import checks
from gradwalk.figures import OURS, TRAINED
from gradwalk.figures.table import Table

if TYPE_CHECKING:  # the tables need no torch, so that a figure redraws without it
    from gradwalk.data import Dataset
    from gradwalk.sweep import Result, Spec
    from gradwalk.train import Epoch, Run

SCALES = ("smoke", "quick", "laptop", "paper")

_SETTINGS = ("task", "activation", "weights", "depth", "params", "gain", "rate_in", "rate_out", "seed")


def spec_text(name: str, scale: str) -> str:
    """Return the spec of a figure at that scale, as the package has it.

    >>> spec_text("fig4c", "paper").startswith("# Figure 4C")
    True
    """
    checks.one_of("figures", "figure", name, TRAINED + OURS)
    checks.one_of("figures", "scale", scale, SCALES)
    if name in OURS and scale == "paper":
        raise ValueError(f"figures: {name} is not in the paper, and has no scale 'paper'; the largest is 'laptop'")
    return (files("gradwalk.figures") / "specs" / f"{name}-{scale}.toml").read_text("utf-8")


def possible(spec: Spec) -> tuple[Spec, str | None]:
    """Return the spec with data that can be had, and a sentence where they are other data than it asks for.

    Data that have no stand-in (TIMIT) are asked for by a FileNotFoundError that says how to get them.
    """
    from gradwalk.data import DATASETS, load

    for name in dict.fromkeys(run.data for run in spec.runs()):
        try:
            load(name, scaling="none")
        except FileNotFoundError as error:
            stand_in = DATASETS[name].stand_in
            if stand_in is None:
                raise
            said = f"{name} cannot be had, {stand_in} take its place ({error})"
            return spec.override(_stand_in(spec, stand_in)), said
    return spec, None


def _stand_in(spec: Spec, name: str) -> list[str]:
    """Return the settings that put other data in the place of a spec's, all there are where it asks for more."""
    from gradwalk.data import load

    most = len(load(name, scaling="none").train)
    too_many = any((run.examples or 0) > most for run in spec.runs())
    return [f"data={name}", *(["examples=none"] if too_many else [])]


def datasets(runs: Iterable[Run]) -> dict[tuple[Any, ...], Dataset]:
    """Return the data sets that the runs train on, by their `data_key`."""
    from gradwalk.data import load

    asked = {data_key(run): run for run in runs}
    return {key: load(run.data, examples=run.examples, scaling=run.scaling) for key, run in asked.items()}


def data_key(run: Run) -> tuple[Any, ...]:
    """Return what determines a run's data set."""
    return run.data, run.examples, run.scaling


def by_run(found: Sequence[Result], loaded: Mapping[tuple[Any, ...], Dataset]) -> Table:
    """Return a table with a row a run: its settings, how it ended, and the errors it ended with, NaN if it diverged.

    train_error and test_error are shares of mistakes, or mean squared errors in reconstruction; lowest_error is the
    least training error after any epoch. diverged: the epoch in which it did. clipped and seconds: of all epochs.
    """
    rows = []
    known = _known(found, loaded)
    for result in found:
        last = result.epochs[-1] if result.status == "done" else None
        row = _row(result, known[result.run], last)
        errors = [_errors(result, each)["train_error"] for each in result.epochs]
        row |= {"lowest_error": min(errors, default=np.nan), "epoch": len(result.epochs)}
        row |= {name: sum(getattr(each, name) for each in result.epochs) for name in ("clipped", "seconds")}
        rows.append(row)
    return _table(rows)


def by_epoch(found: Sequence[Result], loaded: Mapping[tuple[Any, ...], Dataset]) -> Table:
    """Return a table with a row a run and epoch; a run that diverged has a last row without errors, where it did."""
    rows = []
    known = _known(found, loaded)
    for result in found:
        rows += [_row(result, known[result.run], epoch) for epoch in result.epochs]
        if result.diverged is not None or not result.epochs:
            rows.append(_row(result, known[result.run], None))
    return _table(rows)


def constant_error(data: Dataset, task: str) -> float:
    """Return the training error of the best answer that is the same for all examples: nothing learned.

    It is the most frequent class, or the mean input.
    """
    if task == "classify":
        return 1 - float(np.bincount(data.train.labels).max()) / len(data.train)
    return float(data.train.inputs(np.arange(len(data.train))).var(axis=0, dtype=np.float64).mean())


def _known(found: Sequence[Result], loaded: Mapping[tuple[Any, ...], Dataset]) -> dict[Run, dict[str, Any]]:
    """Return of each run its settings, its width and its data, all that the table tells besides its results."""
    asked = {(data_key(result.run), result.run.task) for result in found}
    constant = {(key, task): constant_error(loaded[key], task) for key, task in asked}
    known: dict[Run, dict[str, Any]] = {}
    for run in (result.run for result in found):
        data, settings = loaded[data_key(run)], {name: getattr(run, name) for name in _SETTINGS}
        widths = run.architecture(data).widths
        settings["params"] = _number(run.params)
        if run.gain is None:
            gains = run.gains(widths)
            settings["gain"] = np.nan if gains is None else gains.gain
        facts = {"data": data.name, "train_examples": len(data.train), "test_examples": len(data.test)}
        more = {"width": max(widths[1:-1]), "constant_error": constant[data_key(run), run.task]}
        known[run] = facts | settings | more
    return known


def _row(result: Result, known: dict[str, Any], epoch: Epoch | None) -> dict[str, Any]:
    """Return what is known of a run after an epoch, or without one where it diverged or failed."""
    ended = {"status": result.status, "diverged": _number(result.diverged)}
    measured = {"epoch": _number(result.diverged), "clipped": np.nan, "seconds": np.nan}
    if epoch is not None:
        measured = {name: getattr(epoch, name) for name in measured}
    return known | ended | measured | _errors(result, epoch)


def _errors(result: Result, epoch: Epoch | None) -> dict[str, float]:
    """Return loss, mistakes and error of both splits; a reconstruction has no mistakes, and its error is the loss."""
    found: dict[str, float] = {}
    for split, examples in (("train", result.train_examples), ("test", result.test_examples)):
        loss = mistakes = error = np.nan
        if epoch is not None:
            loss = error = getattr(epoch, f"{split}_loss")
        if epoch is not None and result.run.task == "classify":
            mistakes = getattr(epoch, f"{split}_mistakes")
            error = mistakes / examples
        found |= {f"{split}_error": error, f"{split}_mistakes": mistakes, f"{split}_loss": loss}
    return found


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    assert rows, "a spec has at least one run"
    return Table({name: np.array([row[name] for row in rows]) for name in rows[0]})


def _number(value: float | None) -> float:
    return np.nan if value is None else value

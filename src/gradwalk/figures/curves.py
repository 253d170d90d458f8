"""Training curves: the error of each run against the epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.activations import Array
from gradwalk.figures import canvas
from gradwalk.figures.error_axis import MARKERS, Levels, epoch_axis, levels, mark, plain_ticks, shades

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gradwalk.sweep import Result

_MARKS = 12  # markers per curve, about
_FEW = 5  # curves whose labels fit inside a panel


def draw_curves(results: Sequence[Result], labels: Sequence[str] | None = None) -> Figure:
    """Return a figure of training error and held-out error against the epoch, side by side, with one curve per run.

    The error is the share of mistakes, or the loss in reconstruction. The curve of a run that diverged rises to a line
    of that name. labels: one per run (default: the settings in which the runs differ).
    """
    from gradwalk.sweep.labels import run_labels

    names = run_labels(results) if labels is None else labels
    curves = [_curves(result) for result in results]
    return draw_error_curves(curves, names, _levels(results, curves), share=_all_classify(results))


def draw_error_curves(
    curves: Sequence[tuple[Array, Array]], labels: Sequence[str], lines: Levels, *, share: bool
) -> Figure:
    """Return the figure of `draw_curves` from numbers: epochs (n) and errors of both splits (2, n) per run."""
    figure, panels = canvas(1, 2, (9.0, 3.8), sharex=True, sharey=True)
    for side, (panel, split) in enumerate(zip(panels[0], ("training", "held-out"), strict=True)):
        mark(panel, lines, named=side == 1)
        _draw(panel, [(epochs, errors[side]) for epochs, errors in curves], labels, lines)
        panel.set_title(f"{split} error", fontsize=10)
        epoch_axis(panel)
    plain_ticks(panels[0, 0], share=share)
    panels[0, 0].set_ylabel("error")
    _add_legend(figure, panels[0, 1], len(curves))
    return figure


def _curves(result: Result) -> tuple[Array, Array]:
    """Return the epochs (n) and the errors of both splits (2, n), with NaN at the epoch of a divergence."""
    epochs = [float(epoch.epoch) for epoch in result.epochs]
    errors = [(result.train_error_after(epoch), result.test_error_after(epoch)) for epoch in result.epochs]
    if result.diverged is not None:
        epochs, errors = [*epochs, float(result.diverged)], [*errors, (np.nan, np.nan)]
    return np.array(epochs), np.array(errors, dtype=float).reshape(-1, 2).T


def _levels(results: Sequence[Result], curves: Sequence[tuple[Array, Array]]) -> Levels:
    errors = np.concatenate([np.empty(0), *(both.ravel() for _, both in curves)])
    examples = [max(result.train_examples, result.test_examples) for result in results]
    return levels(errors, max(examples, default=1) if _all_classify(results) else None)


def _all_classify(results: Sequence[Result]) -> bool:
    return all(result.run.task == "classify" for result in results)


def _draw(panel: Axes, curves: Sequence[tuple[Array, Array]], labels: Sequence[str], lines: Levels) -> None:
    colours = shades(range(len(curves)))
    for index, ((epochs, errors), label) in enumerate(zip(curves, labels, strict=True)):
        style: dict[str, Any] = {"color": colours[index], "marker": MARKERS[index % len(MARKERS)], "markersize": 4}
        panel.plot(epochs, lines.heights(errors), label=label, markevery=max(1, len(epochs) // _MARKS), **style)


def _add_legend(figure: Figure, panel: Axes, entries: int) -> None:
    """Add a legend inside the panel, or beside it if there are many entries."""
    if entries > _FEW:
        figure.legend(*panel.get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False)
    elif entries > 1:
        panel.legend(fontsize=8, frameon=False)

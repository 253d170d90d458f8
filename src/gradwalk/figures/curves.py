"""Training curves, and the paper's learning rates over depth: what a user sees of the runs just trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.activations import Array
from gradwalk.figures import canvas
from gradwalk.figures.error_axis import MARKERS, Levels, epoch_axis, levels, mark, shades

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gradwalk.train import Epoch

_SPLITS = ("training", "held-out")
_MARKS = 12  # about so many markers a curve
_FEW = 5  # curves whose names have room inside a panel


def draw_curves(
    epochs_by_label: Mapping[str, Sequence[Epoch]],
    *,
    examples: tuple[int, int] | None = None,
    diverged: Mapping[str, int] | None = None,
) -> Figure:
    """Return training error and held-out error against the epoch, side by side, a curve a label.

    examples: how many there are to train on and held out, for an error that is the share of mistakes; without it the
    loss is drawn. diverged: the epoch in which a run diverged, by its label; its curve goes up to a line of that name.
    """
    ended = diverged or {}
    curves = {
        label: [_curve(epochs, split, examples, ended.get(label)) for split in _SPLITS]
        for label, epochs in epochs_by_label.items()
    }
    lines = _levels(curves, examples)
    figure, panels = canvas(1, 2, (9.0, 3.8), sharex=True, sharey=True)
    for place, (panel, split) in enumerate(zip(panels[0], _SPLITS, strict=True)):
        mark(panel, lines, named=place == 1)
        _draw(panel, {label: both[place] for label, both in curves.items()}, lines)
        panel.set_title(f"{split} error", fontsize=10)
        epoch_axis(panel)
    panels[0, 0].set_ylabel("error (share of examples)" if examples else "loss")
    _legend(figure, panels[0, 1], len(curves))
    return figure


def draw_rates(rates_by_label: Mapping[str, Array]) -> Figure:
    """Return the learning rate of each layer, input first, as `train.depth_rates` gives it (eq. 19 to 22).

    Networks of different depth end together at the output, where all have lambda_out: layers count back from there.
    """
    figure, panels = canvas(1, 1, (6.4, 3.8))
    panel, colours = panels[0, 0], shades(range(len(rates_by_label)))
    for place, (label, rates) in enumerate(rates_by_label.items()):
        look: dict[str, Any] = {"color": colours[place], "marker": MARKERS[place % len(MARKERS)], "markersize": 4}
        before = np.arange(len(rates) - 1, -1, -1)
        panel.plot(before, rates, label=label, markevery=max(1, len(rates) // _MARKS), **look)
    panel.set_yscale("log")
    panel.invert_xaxis()
    panel.set_xlabel("layers before the output layer")
    panel.set_ylabel("learning rate")
    _legend(figure, panel, len(rates_by_label))
    return figure


def _curve(
    epochs: Sequence[Epoch], split: str, examples: tuple[int, int] | None, diverged: int | None
) -> tuple[Array, Array]:
    """Return epochs and errors, the last NaN at the epoch in which the run diverged."""
    training = split == "training"
    if examples is None:
        errors = [each.train_loss if training else each.test_loss for each in epochs]
    else:
        errors = [
            (each.train_mistakes / examples[0] if training else each.test_mistakes / examples[1]) for each in epochs
        ]
    numbers = [each.epoch for each in epochs]
    if diverged is not None:
        numbers, errors = [*numbers, diverged], [*errors, np.nan]
    return np.array(numbers, dtype=float), np.array(errors, dtype=float)


def _levels(curves: Mapping[str, Sequence[tuple[Array, Array]]], examples: tuple[int, int] | None) -> Levels:
    errors = [errors for both in curves.values() for _, errors in both]
    return levels(np.concatenate([np.empty(0), *errors]), max(examples) if examples else None)


def _draw(panel: Axes, curves: Mapping[str, tuple[Array, Array]], lines: Levels) -> None:
    colours = shades(range(len(curves)))
    for place, (label, (epochs, errors)) in enumerate(curves.items()):
        look: dict[str, Any] = {"color": colours[place], "marker": MARKERS[place % len(MARKERS)], "markersize": 4}
        panel.plot(epochs, lines.heights(errors), label=label, markevery=max(1, len(epochs) // _MARKS), **look)


def _legend(figure: Figure, panel: Axes, entries: int) -> None:
    """Name the curves: inside the panel, or beside it where they are many."""
    if entries > _FEW:
        figure.legend(*panel.get_legend_handles_labels(), loc="outside right center", fontsize=8, frameon=False)
    elif entries > 1:
        panel.legend(fontsize=8, frameon=False)

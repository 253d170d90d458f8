"""A sweep at a glance: the error of every run against one setting, coloured by another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from gradwalk import checks
from gradwalk.sweep.labels import setting_text, varying_settings
from gradwalk.sweep.store import Result
from gradwalk.train import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SPLITS = ("train", "test")
SETTINGS = tuple(Run.model_fields)
_AXES = ("gain", "depth", "rate_in", "rate_out")  # preferred, if they vary
_COLOURS = ("depth", "activation", "rate_in", "rate_out")
_MARKS = "osD^v<>pX*"


def plot(results: Sequence[Result], x: str | None = None, colour: str | None = None, split: str = "train") -> Figure:
    """Return a figure of the error of all runs against setting `x`, coloured by setting `colour`.

    The defaults are settings that vary: the gain, then the depth, then the learning rates, then any other. Each dot is
    a run, lines connect the smallest error of each colour, and a cross at the top is a run that diverged.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.5), layout="constrained")
    panel = figure.subplots()
    panel.spines[["top", "right"]].set_visible(False)
    plot_on(panel, results, x, colour, split)
    return figure


def plot_on(panel: Axes, results: Sequence[Result], x: str | None, colour: str | None, split: str) -> Axes:
    """Draw what `plot` draws on these axes, and return them."""
    checks.one_of("sweep plot", "split", split, SPLITS)
    ended = [result for result in results if result.status == "diverged" or result.epochs]
    if not ended:
        raise ValueError("sweep plot: no run has finished an epoch yet")
    x = _chosen("x", x, ended, _AXES) or "gain"
    colour = _chosen("colour", colour, ended, _COLOURS, besides=x)
    values = _sorted({getattr(result.run, x) for result in ended})
    places = {value: float(value) if _numeric(values) else at for at, value in enumerate(values)}
    shades = [None] if colour is None else _sorted({getattr(result.run, colour) for result in ended})
    for index, shade in enumerate(shades):
        chosen = [result for result in ended if colour is None or getattr(result.run, colour) == shade]
        points = [(places[getattr(result.run, x)], getattr(result, f"{split}_error")) for result in chosen]
        _draw(panel, points, setting_text(shade), _colour(index, len(shades)), _MARKS[index % len(_MARKS)])
    _label(panel, x, colour, split, values)
    return panel


def _chosen(
    role: str, key: str | None, results: Sequence[Result], first: Sequence[str], besides: str = ""
) -> str | None:
    """Return the given setting, or the first one that varies, or None."""
    if key is not None:
        return checks.one_of("sweep plot", role, key, SETTINGS)
    varying = varying_settings(results)
    preferred = [name for name in (*first, *varying) if name in varying and name != besides]
    return next(iter(preferred), None)


def _draw(panel: Axes, points: Sequence[tuple[float, float]], label: str, colour: Any, marker: str) -> None:
    """Draw the runs of one colour, a line through the best ones, and diverged ones at the top."""
    shown = [(at, error) for at, error in points if math.isfinite(error)]
    least: dict[float, float] = {}
    for at, error in sorted(shown):
        least.setdefault(at, error)
    panel.scatter(*_columns(shown), s=14, alpha=0.45, linewidths=0, color=colour, marker=marker)
    panel.plot(*_columns(least.items()), color=colour, marker=marker, markersize=4, linewidth=1.2, label=label)
    lost = [at for at, error in points if not math.isfinite(error)]
    panel.scatter(lost, [0.98] * len(lost), s=16, marker="x", color=colour, transform=panel.get_xaxis_transform())


def _columns(points: Iterable[tuple[float, float]]) -> tuple[list[float], list[float]]:
    across, up = zip(*points, strict=True) if points else ((), ())
    return list(across), list(up)


def _label(panel: Axes, x: str, colour: str | None, split: str, values: list[Any]) -> None:
    if not _numeric(values):
        panel.set_xticks(range(len(values)), [setting_text(value) for value in values])
    elif max(values) > 20 * min(values) > 0:
        panel.set_xscale("log")
    panel.set_xlabel(x)
    panel.set_ylabel(f"{'training' if split == 'train' else 'test'} error")
    if panel.get_ylim()[0] < 0:
        panel.set_ylim(bottom=0)
    if colour is not None:
        panel.legend(title=colour, fontsize=8, frameon=False, ncols=1 + len(panel.lines) // 12)


def _numeric(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _sorted(values: set[Any]) -> list[Any]:
    """Return the values sorted, with None last."""
    return sorted(values, key=lambda value: (value is None, isinstance(value, str), 0 if value is None else value))


def _colour(index: int, count: int) -> Any:
    import matplotlib

    return matplotlib.colormaps["viridis"](0.0 if count < 2 else 0.9 * index / (count - 1))

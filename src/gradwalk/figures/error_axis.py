"""The logarithmic axis of errors, with a line below for runs without a mistake and one above for those that diverged.

Neither has a place on a logarithmic axis, and neither may be missing from the picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from gradwalk.activations import Array
from gradwalk.figures.drawing import GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
_LIGHTEST = 0.56  # of viridis; lighter ones have a contrast below 3:1 on white
_EVEN, _FEW_DECADES = 0.6, 2.2  # decades
_APART = 2.0  # the factor between the largest error and the line of the diverged runs

Value = TypeVar("Value")


@dataclass(frozen=True)
class Levels:
    """The heights of the two lines: half a mistake or below all errors, and above them; None where no run lies there.

    most: the largest error that is shown as such; larger ones lie on the line of the diverged runs.
    """

    floor: float | None
    ceiling: float | None
    most: float = np.inf

    def heights(self, errors: Array) -> Array:
        """Return where the axis shows each error: 0 at the floor, NaN (a diverged run) at the ceiling."""
        placed = np.where(errors == 0, _height(self.floor), errors)
        return np.where(np.isnan(errors) | (errors > self.most), _height(self.ceiling), placed)

    @property
    def names(self) -> tuple[tuple[float | None, str], ...]:
        """Each line's height and its label."""
        above = "diverged" if np.isinf(self.most) else f"diverged,\nor > {self.most:g}"
        return (self.floor, "0 mistakes"), (self.ceiling, above)


def levels(errors: Array, examples: float | None, most: float = np.inf) -> Levels:
    """Return the lines that these errors need, where NaN is a diverged run.

    examples: the number of examples that a share of mistakes refers to; None for an error that is not a share.

    >>> levels(np.array([0.1, 0.0, np.nan]), examples=1000)
    Levels(floor=0.0005, ceiling=2.0, most=inf)

    The mean of several runs may be less than a mistake.

    >>> levels(np.array([0.0, 0.0004]), examples=1000)
    Levels(floor=0.0002, ceiling=None, most=inf)
    """
    lost = np.isnan(errors) | (errors > most)
    shown = errors[~lost]
    least = min(0.5 / (examples or 1), shown[shown > 0].min(initial=np.inf) / _APART)
    floor = float(least) if (errors == 0).any() else None
    ceiling = float(_APART * max(1.0, shown.max(initial=0.0))) if lost.any() else None
    return Levels(floor, ceiling, most)


def mark(panel: Axes, lines: Levels, named: bool = True) -> None:
    """Make the panel's vertical axis logarithmic and draw the lines, with their labels on the right if `named`."""
    panel.set_yscale("log")
    for level, name in lines.names:
        if level is None:
            continue
        panel.axhline(level, color=GREY, linestyle=":", linewidth=1, zorder=0)
        if named:
            _name(panel, name, level)


def mark_constant(panel: Axes, error: float, name: str = "constant answer") -> None:
    """Draw a line at the error of the best constant answer: above it nothing was learned."""
    panel.axhline(error, color=GREY, linestyle="--", linewidth=1, zorder=0)
    _name(panel, name, error)


def plain_ticks(panel: Axes, *, share: bool) -> None:
    """Label the vertical axis with plain numbers, in per cent for a share; call it when everything is drawn.

    Over a small range the ticks are evenly spaced, over a few decades at 1, 2 and 5, over more at powers of 10.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

    low, high = panel.get_ylim()
    decades = np.log10(high / low)
    if decades < _EVEN:
        panel.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        panel.yaxis.set_minor_locator(NullLocator())
    else:
        panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < _FEW_DECADES else (1,)))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %" if share else f"{value:g}"))
    panel.yaxis.set_minor_formatter(NullFormatter())


def epoch_axis(panel: Axes) -> None:
    """Make the panel's horizontal axis one of epochs, with integer ticks."""
    from matplotlib.ticker import MaxNLocator

    panel.xaxis.set_major_locator(MaxNLocator(integer=True))
    panel.set_xlabel("epoch")


def depth_axis(panel: Axes, depths: Sequence[float]) -> None:
    """Make the panel's horizontal axis log2 of the depth, with ticks at these depths."""
    panel.set_xscale("log", base=2)
    panel.set_xticks(depths, labels=[f"{depth:.0f}" for depth in depths])
    panel.set_xticks([], minor=True)
    panel.set_xlabel("depth D (layers)")


def shades(values: Iterable[Value]) -> dict[Value, str]:
    """Return one colour per value, from dark to light in ascending order (viridis, safe for colour-blind readers).

    >>> list(shades([8, 4, 8]))
    [4, 8]
    """
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    order = _ordered(values)
    places = np.linspace(0.0, _LIGHTEST, len(order)) if len(order) > 1 else [0.3]
    return {value: to_hex(colormaps["viridis"](place)) for value, place in zip(order, places, strict=True)}


def markers(values: Iterable[Value]) -> dict[Value, str]:
    """Return one marker per value, in ascending order; they repeat after ten values."""
    return {value: MARKERS[place % len(MARKERS)] for place, value in enumerate(_ordered(values))}


def _name(panel: Axes, name: str, level: float) -> None:
    place: dict[str, Any] = {"xycoords": panel.get_yaxis_transform(), "textcoords": "offset points"}
    panel.annotate(name, (1, level), (3, 0), va="center", fontsize=8, color=GREY, **place)


def _ordered(values: Iterable[Value]) -> Sequence[Value]:
    return sorted(set(values))  # type: ignore[type-var]


def _height(level: float | None) -> float:
    return np.nan if level is None else level

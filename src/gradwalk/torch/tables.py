"""The report of `probe` as text, at most 100 columns wide."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from gradwalk.torch.walk import GradientWalk

_ROWS = 40  # of the table of a walk; of longer ones the first, the last and some between are shown


def walk_table(walk: "GradientWalk") -> str:
    """Return the table of a walk, one row per layer, with its first notes and the verdict."""
    head = f"{'layer':<24} {'reads':<14} {'log-norm':>9} {'±':>6} {'predicted':>20}"
    lines = [f"{head} {'z':>6} {'forward':>8} {'stuck':>6}"]
    places = _shown(len(walk.layers))
    for before, place in zip([-1, *places], places, strict=False):
        lines += ["..."] if place != before + 1 else []
        lines.append(_walk_row(walk, place))
    return "\n".join([*lines, *walk.notes[:5], walk.verdict])


def _walk_row(walk: "GradientWalk", place: int) -> str:
    band = f"{walk.predicted[place]:.2f} ± {(walk.high - walk.low)[place] / 2:.2f}"
    reads = walk.reads[place]
    cells = [
        f"{walk.layers[place][-24:]:<24} {(reads.name if reads else '?')[:14]:<14}",
        f"{walk.log_norm[place]:>9.2f} {walk.spread[place]:>6.2f} {band:>20} {walk.z[place]:>6.1f}",
        f"{walk.forward[place]:>8.2f} {walk.stuck[place]:>6.0%}",
    ]
    return " ".join(cells).replace("nan%", "   -").replace("nan", "  -")


def _shown(count: int) -> list[int]:
    """Return the places that a table shows: all, or the first, the last and some between."""
    if count <= _ROWS:
        return list(range(count))
    between = np.linspace(10, count - 11, 20).round().astype(int).tolist()
    return sorted({*range(10), *between, *range(count - 10, count)})

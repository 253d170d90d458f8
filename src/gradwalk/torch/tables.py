"""The report of `probe` as text, at most 100 columns wide."""

import textwrap
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from gradwalk.torch.walk import GradientWalk

_ROWS = 40  # of the table of a walk; of longer ones the first, the last and some between are shown
_WIDTH = 100
_NOTES = 5


def walk_table(walk: "GradientWalk") -> str:
    """Return the table of a walk, one row per layer, the stream if there is one, the first notes and the verdict."""
    head = f"{'layer':<22} {'reads':<12} {'log-norm':>8} {'±':>5} {'predicted':>15} {'z':>5}"
    rows = [_walk_row(walk, place) for place in range(len(walk.layers))]
    notes = [line for note in walk.notes[:_NOTES] for line in textwrap.wrap(note, _WIDTH, subsequent_indent="  ")]
    return "\n".join(
        [
            f"{head} {'forward':>7} {'stuck':>5} {'gain':>8} {'dirs':>4}",
            *_shortened(rows),
            *_stream(walk),
            *_blocks(walk),
            *notes,
            walk.verdict,
        ]
    )


def _walk_row(walk: "GradientWalk", place: int) -> str:
    band = f"{walk.predicted[place]:.2f} ± {(walk.high - walk.low)[place] / 2:.2f}"
    reads = walk.reads[place]
    cells = [
        f"{walk.layers[place][-22:]:<22} {(reads.name if reads else '?')[:12]:<12}",
        f"{walk.log_norm[place]:>8.2f} {walk.spread[place]:>5.2f} {band:>15} {walk.z[place]:>5.1f}",
        f"{walk.forward[place]:>7.2f} {walk.stuck[place]:>5.0%} {walk.gains[place]:>8.3g}",
        f"{walk.directions[place]:>4.3g}",
    ]
    return " ".join(cells).replace("nan%", "  -").replace("nan", "  -")


def _stream(walk: "GradientWalk") -> list[str]:
    if not walk.stream:
        return []
    rows = [f"{point.name[-48:]:<48} {point.log_norm:>8.2f} {point.forward:>8.2f}" for point in walk.stream]
    return [f"{'along the stream':<48} {'log-norm':>8} {'forward':>8}", *_shortened(rows)]


def _blocks(walk: "GradientWalk") -> list[str]:
    if not walk.blocks:
        return []
    rows = [f"{block.name[-48:]:<48} {block.forward:>8.2f} {block.backward:>8.2f}" for block in walk.blocks]
    head = f"{'branch against stream (ln of the ratio)':<48} {'forward':>8} {'backward':>8}"
    return [head, *(row.replace("nan", "  -") for row in _shortened(rows))]


def _shortened(rows: list[str]) -> list[str]:
    """Return all rows, or the first, the last and some between."""
    if len(rows) <= _ROWS:
        return rows
    between = np.linspace(10, len(rows) - 11, 20).round().astype(int).tolist()
    places = sorted({*range(10), *between, *range(len(rows) - 10, len(rows))})
    lines = []
    for before, place in zip([-1, *places], places, strict=False):
        lines += ["..."] if place != before + 1 else []
        lines.append(rows[place])
    return lines

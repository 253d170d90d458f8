"""The reports of `init_` and `probe` as text, at most 100 columns wide."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gradwalk.torch.layers import LeftAlone

if TYPE_CHECKING:
    from gradwalk.torch.init import InitReport, InitRow
    from gradwalk.torch.walk import GradientWalk

_WIDTH = 100
_ROWS = 40  # of the table of a walk; of longer ones the first, the last and some between are shown
_LEGEND = {"~": "~0: an estimate", "-": "-: none predicted"}


def init_table(report: "InitReport") -> str:
    """Return the table of a report with its footnotes, the modules left alone and the remarks."""
    return "\n".join([*_init_rows(report.rows), *_left_alone(report.left_alone), *_wrapped(report.remarks)])


def _init_rows(rows: "Iterable[InitRow]") -> list[str]:
    marks: dict[str, str] = {}
    cells = [("layer", "shape", "reads", "gain", "std", "drift", "")]
    for row in rows:
        footnotes = "".join(marks.setdefault(str(note), f"[{len(marks) + 1}]") for note in row.notes)
        drift = "-" if row.drift is None else f"{'' if row.exact else '~'}{row.drift:g}"
        shape = "x".join(map(str, row.shape))
        cells.append((row.name, shape, row.activation, f"{row.gain:.4f}", f"{row.std:.5f}", drift, footnotes))
    limits = (36, 18, 16, 8, 9, 5, 99)
    widths = [min(limit, max(map(len, column))) for limit, column in zip(limits, zip(*cells, strict=True), strict=True)]
    lines = ["  ".join(_fit(cell, width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    return [*lines, *(f"{mark} {note}" for note, mark in marks.items()), *_legend([line[5] for line in cells[1:]])]


def _legend(drifts: Sequence[str]) -> list[str]:
    signs = {drift[0] for drift in drifts}
    entries = [text for sign, text in _LEGEND.items() if sign in signs]
    return ["drift: " + "; ".join(["0: exact", *entries])] if entries else []


def _fit(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else "…" + text[1 - width :]


def _left_alone(modules: Iterable[LeftAlone]) -> list[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    for module in modules:
        groups.setdefault((module.kind, module.why), []).append(module.name)
    lines = []
    for (kind, why), names in groups.items():
        more = f" and {len(names) - 2} more" if len(names) > 2 else ""
        lines.append(f"left alone: {', '.join(names[:2])}{more} ({kind}): {why}")
    return _wrapped(lines)


def _wrapped(lines: Iterable[str]) -> list[str]:
    return [part for line in lines for part in textwrap.wrap(line, _WIDTH, subsequent_indent="  ")]


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

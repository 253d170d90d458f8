"""What printable figures share: colours, an empty canvas, and files that are the same to the byte.

matplotlib is imported where something is drawn, and only its objects are used: no pyplot, no global state.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradwalk.activations import Array
from gradwalk.display import BLUE as BLUE
from gradwalk.display import GREEN as GREEN
from gradwalk.display import INK
from gradwalk.display import RED as RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ENDINGS = (".png", ".pdf", ".svg")

# Hues of Okabe and Ito, which colour-blind readers can tell apart, darkened to a contrast of at least 4:1 on white.
# Line styles and markers differ as well.
BLACK, GREY = INK, "#6E7781"
ORANGE, PURPLE = "#A86C00", "#B85A8F"

_UNDATED: dict[str, dict[str, Any]] = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}, ".png": {}}


def canvas(rows: int, columns: int, size: tuple[float, float], **sharing: Any) -> tuple[Figure, Any]:
    """Return an empty figure of that size in inches, and its panels as a rows x columns array of axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, **sharing)
    for panel in panels.flat:
        panel.spines[["top", "right"]].set_visible(False)
    return figure, panels


def plot_walks(panel: Axes, travelled: Array, log_norm: Array) -> None:
    """Draw walks, one per row, against the number of layers travelled back, in two shades of blue."""
    for index, walk in enumerate(log_norm):
        panel.plot(travelled, walk, color=BLUE, alpha=0.4 + 0.4 * (index % 3 == 0), linewidth=0.6)
    panel.set_ylabel(r"$\ln\,|\delta_d|/|\delta_D|$")
    panel.set_xlim(float(travelled[0]), float(travelled[-1]))


def zero_line(panel: Axes, color: str, label: str | None = None) -> None:
    """Draw a horizontal line at 0, the mean of an unbiased walk."""
    panel.axhline(0.0, color=color, linewidth=1.2, label=label)


def save(figure: Figure, paths: Sequence[Path]) -> None:
    """Write the figure to each path, in the format of its suffix; equal figures give equal bytes."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "gradwalk"}):
        for path in paths:
            figure.savefig(path, dpi=180, metadata=_UNDATED[ending(path)])


def ending(path: Path) -> str:
    """Return the suffix of a path in lower case, or raise if no figure can be written in that format."""
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"figures: a figure is written as {', '.join(ENDINGS)}, got {path.name!r}")
    return path.suffix.lower()

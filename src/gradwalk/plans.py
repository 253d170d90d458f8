"""What an initialization would do to a network, layer by layer: the same record for PyTorch, Keras and Flax."""

import html
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from gradwalk.display import INK, RED, Shown, axes_of, html_row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DEEP = 10  # layers of a chain from which the directions that pass are predicted

_WIDTH = 100
_FEW_DIRECTIONS = 2.0  # below which a deep chain hardly learns
_HEAD = ("layer", "shape", "role", "reads", "std now", "std", "gain", "drift", "")
_LIMITS = (99, 15, 13, 14, 8, 8, 7, 7, 12)  # of the columns; the first gets what the others leave
_LEGEND = {"~": "~: an estimate", "-": "-: not predicted"}


class LayerRole(Enum):
    """Where a weight layer is in its network, which decides the law that its scale follows."""

    CHAIN = "chain"
    BRANCH = "branch"
    NORMED = "behind a norm"
    HEAD = "head"
    OUTSIDE = "outside"

    def __str__(self) -> str:
        return self.value


class PlanRow(NamedTuple):
    """What is planned for one weight layer.

    Attributes:
        name: of the layer in its model.
        shape: of its weights.
        role: where it is in its network.
        activation: the one whose output it reads, "?" where that is not known.
        std: of its weights now, NaN where they have no values yet.
        proposed: the standard deviation of the weights by its law, None where none is known.
        gain: proposed * sqrt(fan_in).
        drift: the mean change of the gradient's log-norm over this layer once drawn, None where the theory does not
            have it.
        exact: whether that holds for this layer exactly, or on average over the walk and to within the error of the
            gain.
        reason: why the layer is left alone, "" for one that is drawn.
        notes: what its numbers depend on.
        rescaled: whether its own weights are multiplied, rather than drawn.
    """

    name: str
    shape: tuple[int, ...]
    role: LayerRole
    activation: str
    std: float
    proposed: float | None
    gain: float | None
    drift: float | None
    exact: bool
    reason: str = ""
    notes: tuple[str, ...] = ()
    rescaled: bool = False


class LeftAlone(NamedTuple):
    """A module with parameters that is no weight layer of the walk: its name and class, and why it is left alone."""

    name: str
    kind: str
    why: str


class Passing(Protocol):
    """The way of gradients through the layers, as `gradwalk.gains.Passage` describes it."""

    @property
    def units(self) -> int: ...
    @property
    def directions(self) -> float: ...


@dataclass(frozen=True)
class Plan(Shown):
    """What an initialization does to a network. Prints as a table, in a notebook as a table of HTML.

    Attributes:
        rows: one per weight layer.
        left_alone: the other modules with parameters.
        remarks: what to know beyond the rows.
        passage: the way of gradients through the layers as planned, None unless they are a deep chain of dense layers.
    """

    rows: tuple[PlanRow, ...]
    left_alone: tuple[LeftAlone, ...] = ()
    remarks: tuple[str, ...] = ()
    passage: Passing | None = field(default=None, compare=False, repr=False)

    @property
    def directions(self) -> float:
        """How many directions are predicted to pass backward once the plan is applied; NaN where that is not known."""
        return math.nan if self.passage is None else self.passage.directions

    @property
    def drawn(self) -> tuple[PlanRow, ...]:
        """The rows of the layers whose weights are drawn, or rescaled."""
        return tuple(row for row in self.rows if not row.reason)

    def row(self, name: str) -> PlanRow:
        """Return the row of a layer; a KeyError if there is none of this name."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(name)

    def columns(self) -> dict[str, list[Any]]:
        """Return the rows as named columns, ready for pandas.DataFrame."""
        plain = [row._replace(role=str(row.role), notes="; ".join(row.notes)) for row in self.rows]  # type: ignore[arg-type]
        return {field: [getattr(row, field) for row in plain] for field in PlanRow._fields}

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the standard deviation of the weights of each layer, now and by its law, and return the axes."""
        panel, places = axes_of(ax), list(range(1, len(self.rows) + 1))
        proposed = [math.nan if row.proposed is None or row.reason else row.proposed for row in self.rows]
        panel.plot(places, [row.std for row in self.rows], "o", color=INK, fillstyle="none", label="now")
        panel.plot(places, proposed, "x", color=RED, label="drawn")
        panel.set(yscale="log", xlabel="weight layer", ylabel="standard deviation of the weights")
        panel.legend(frameon=False)
        return panel

    def __repr__(self) -> str:
        return f"<Plan: {len(self.drawn)} of {len(self.rows)} weight layers drawn>"

    def __str__(self) -> str:
        cells, footnotes = _cells(self.rows)
        columns = zip(*cells, strict=True)
        widths = [min(limit, max(map(len, column))) for limit, column in zip(_LIMITS, columns, strict=True)]
        widths[0] = min(widths[0], _WIDTH - sum(widths[1:]) - 2 * len(widths[1:]))
        lines = [
            "  ".join(_fit(cell, width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
        ]
        return "\n".join([*lines, *_wrapped([*footnotes, *_legend(cells), *self._below])])

    @property
    def _below(self) -> list[str]:
        """What stands below the rows."""
        return [*_grouped(self.left_alone), *self.remarks, *_directions(self)]

    def _repr_html_(self) -> str:
        (head, *body), footnotes = _cells(self.rows)
        lines = [html_row("th", head), *(html_row("td", line) for line in body)]
        below = [*footnotes, *_legend([head, *body]), *self._below]
        return f"<table>{''.join(lines)}</table>" + "".join(f"<p>{html.escape(line)}</p>" for line in below)


def _cells(rows: Sequence[PlanRow]) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return the head and the rows as text, and the footnotes that their marks refer to."""
    marks: dict[str, str] = {}
    cells: list[tuple[str, ...]] = [_HEAD]
    for row in rows:
        texts = [f"left alone: {row.reason}"] * bool(row.reason) + list(row.notes)
        footnotes = "".join(marks.setdefault(text, f"[{len(marks) + 1}]") for text in texts)
        cells.append((*_numbers(row), footnotes))
    return cells, [f"{mark} {text}" for text, mark in marks.items()]


def _numbers(row: PlanRow) -> tuple[str, ...]:
    drift = "-" if row.drift is None else f"{'' if row.exact else '~'}{round(row.drift, 3) + 0.0:g}"
    drawn = ("-", "-", "") if row.proposed is None else (f"{row.proposed:.4g}", f"{row.gain:.4f}", drift)
    shape = "x".join(map(str, row.shape))
    return (row.name, shape, str(row.role), row.activation, f"{row.std:.4g}".replace("nan", "-"), *drawn)


def _legend(cells: Sequence[Sequence[str]]) -> list[str]:
    drifts = [line[7] for line in cells[1:]]
    signs = {drift[0] if drift.startswith("~") else drift for drift in drifts}
    entries = [text for sign, text in _LEGEND.items() if sign in signs]
    return ["drift: " + "; ".join(["0: exact", *entries])] if entries else []


def _directions(plan: Plan) -> list[str]:
    """Return a sentence on how many directions are predicted to pass, if that is known."""
    if plan.passage is None or math.isnan(count := plan.directions):
        return []
    few = "; gradwalk.advise ranks what helps" if count < _FEW_DIRECTIONS else ""
    return [f"{count:.1f} directions of {plan.passage.units} are predicted to pass backward{few}."]


def _fit(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else "…" + text[1 - width :]


def _grouped(modules: Iterable[LeftAlone]) -> list[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    for module in modules:
        groups.setdefault((module.kind, module.why), []).append(module.name)
    lines = []
    for (kind, why), names in groups.items():
        more = f" and {len(names) - 2} more" if len(names) > 2 else ""
        lines.append(f"left alone: {', '.join(names[:2])}{more} ({kind}): {why}")
    return lines


def _wrapped(lines: Iterable[str]) -> list[str]:
    return [part for line in lines for part in textwrap.wrap(line, _WIDTH, subsequent_indent="  ")]

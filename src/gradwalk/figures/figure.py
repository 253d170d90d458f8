"""What a figure is to the rest of gradwalk: one record per figure, simulated or trained.

A figure is computed once, as a table; everything that is shown of it (the printable picture, the panels of the page,
the summary) is made from that table alone.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any, Literal, get_args

from gradwalk import checks
from gradwalk.figures import provenance
from gradwalk.figures.outcomes import Line
from gradwalk.figures.run_table import by_run
from gradwalk.figures.table import Table
from gradwalk.figures.training_scale import TrainingScale, what_was_trained

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from gradwalk.data import Datasets
    from gradwalk.figures.interactive.frame import Panel
    from gradwalk.sweep import Result

Scale = Literal["smoke", "quick", "laptop", "evening", "paper"]
SCALES: tuple[Scale, ...] = get_args(Scale)

PACKAGED_SPECS: Traversable = files("gradwalk.figures") / "specs"


def _no_summary(table: Table) -> list[Line]:
    return []


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What simulated and trained figures have in common. Register a `SimulatedFigure` or a `TrainedFigure`.

    name: that of its files and on the command line. title, caption: shown on the page. draw: returns the printable
    picture. summary: returns the numbers that matter, as pairs of a label and a text. panels: returns the interactive
    panels of the page; without it the page shows the picture. in_paper: whether the paper has this figure. needs: what
    must be there that gradwalk cannot get, as a sentence. options: those of the command that says where it is.
    """

    name: str
    title: str
    caption: str
    draw: Callable[[Table], Picture]
    summary: Callable[[Table], list[Line]] = _no_summary
    panels: Callable[[Table], list[Panel]] | None = None
    in_paper: bool = False
    needs: str = ""
    options: str = ""

    def what_was_run(self, table: Table) -> list[Line]:
        """Return what the table is based on, one line per fact."""
        return provenance.lines(table)

    def scale_here(self, table: Table) -> str:
        """Return a sentence on how much was run for the table, empty if there is nothing to add to the caption."""
        return ""

    def reduction(self, table: Table) -> str:
        """Return in words by how much the table is smaller than the paper's; empty if it is not."""
        return ""


def _no_extent(table: Table) -> str:
    return ""


@dataclass(frozen=True, kw_only=True)
class SimulatedFigure(Figure):
    """A figure that simulates what it shows.

    compute: returns the table for a seed, which it records as the fact `seed`. extent: returns what was simulated, in
    words.
    """

    compute: Callable[[int], Table]
    extent: Callable[[Table], str] = _no_extent

    def what_was_run(self, table: Table) -> list[Line]:
        """Return what the table is based on, one line per fact."""
        scale = [("scale", "the paper’s own")] if self.in_paper else []
        extent = [("simulated", words)] if (words := self.extent(table)) else []
        seed = [("seed", f"{table.facts['seed']:.0f}")] if "seed" in table.facts else []
        return [*scale, *extent, *seed, *provenance.lines(table)]


@dataclass(frozen=True, kw_only=True)
class TrainedFigure(Figure):
    """A figure that shows the results of a sweep.

    tabulate: returns the table of a sweep's results, given the data sets that were loaded for it. specs: the folder
    with the spec of each scale, as NAME-SCALE.toml.
    """

    tabulate: Callable[[Sequence[Result], Datasets], Table] = by_run
    specs: Traversable = PACKAGED_SPECS

    @property
    def scales(self) -> tuple[Scale, ...]:
        """The scales at which there is a spec, smallest first."""
        return tuple(scale for scale in SCALES if self._spec(scale).is_file())

    def spec_text(self, scale: str) -> str:
        """Return the spec of a scale, as it is written.

        >>> from gradwalk.figures import fig4c
        >>> fig4c.FIGURE.spec_text("paper").startswith("# Figure 4C")
        True
        """
        checks.one_of("figures", "scale", scale, SCALES)
        if scale not in self.scales:
            known = ", ".join(self.scales)
            raise ValueError(f"figures: {self.name} has no spec at scale {scale!r}; its scales are {known}")
        return self._spec(scale).read_text("utf-8")

    def what_was_run(self, table: Table) -> list[Line]:
        """Return what the table is based on, one line per fact."""
        return what_was_trained(table, self.reduction(table) if "paper" in self.scales else None)

    def scale_here(self, table: Table) -> str:
        """Return a sentence on the data, the number of examples and the epochs."""
        return TrainingScale.of(table).sentence

    def reduction(self, table: Table) -> str:
        """Return in words by how much the table is smaller than the paper's; empty if it is not."""
        return TrainingScale.of(table).reduction(self._papers_spec) if "paper" in self.scales else ""

    @property
    def papers_params(self) -> float:
        """The parameter limit of the spec at the paper's scale."""
        return float(self._papers_spec["params"])

    @cached_property
    def _papers_spec(self) -> dict[str, Any]:
        return tomllib.loads(self.spec_text("paper"))

    def _spec(self, scale: str) -> Traversable:
        return self.specs / f"{self.name}-{scale}.toml"

"""Depths at the paper's depth over width.

How hard a network is to train depends on its depth over its width. With p parameters the width is about sqrt(p / D), so
depth over width is D^1.5 / sqrt(p): a network of a tenth of the paper's parameters has the paper's depth over width at
10^(-1/3) = 0.46 of the paper's depth. Claims that name a depth are judged there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from gradwalk import figures
from gradwalk.figures import Table

NEAR = 1.25  # depths within this factor of each other match


@dataclass(frozen=True)
class Matching:
    """The depths of a table, and the factor from a depth of the paper to that of the same depth over width."""

    factor: float
    depths: tuple[int, ...]

    @classmethod
    def of(cls, name: str, table: Table) -> Matching:
        """Return the matching of the table of a figure of the paper."""
        figure, frame = figures.FIGURES[name], table.frame
        assert isinstance(figure, figures.TrainedFigure), "only trained networks have parameters"
        params = float(frame["params"].max())
        if math.isnan(params):  # the widths were given
            params = float((frame["depth"] * frame["width"] ** 2).max())
        depths = tuple(sorted({int(depth) for depth in frame["depth"]}))
        return cls((params / figure.papers_params) ** (1 / 3), depths)

    def here(self, paper: int) -> int:
        """Return the depth that was run at the depth over width of this one in the paper; raise if there is none."""
        return self._nearest(paper)[0]

    def missing(self, *paper: int) -> str | None:
        """Return which of these depths of the paper have no counterpart, None if all have one."""
        absent = [depth for depth in paper if not self._nearest(depth)]
        if not absent:
            return None
        here = "" if self._same else f", here {_joined(max(2, round(depth * self.factor)) for depth in absent)},"
        return f"D = {_joined(absent)}{here} not run"

    def words(self, *paper: int) -> str:
        """Return in words which depths stand for these of the paper; empty if they are the same."""
        if self._same or self.missing(*paper):
            return ""
        return f"; D = {_joined(map(self.here, paper))} for the paper’s {_joined(paper)}, by depth over width"

    def papers(self, depth: int) -> float:
        """Return the depth in the paper at the depth over width of this one."""
        return depth / self.factor

    def reach(self) -> str:
        """Return in words how deep the deepest network is by the paper's measure; empty if the parameters are equal."""
        deepest = max(self.depths)
        papers = round(self.papers(deepest))
        return "" if self._same else f"; D = {deepest} has the depth over width of the paper’s D = {papers}"

    @property
    def _same(self) -> bool:
        return math.isclose(self.factor, 1.0, rel_tol=0.01)

    def _nearest(self, paper: int) -> list[int]:
        """Return the depths that match this one of the paper, the nearest first."""
        distances = {depth: abs(math.log(depth / (paper * self.factor))) for depth in self.depths}
        matching = [depth for depth in self.depths if distances[depth] <= math.log(NEAR)]
        return sorted(matching, key=lambda depth: distances[depth])


def _joined(depths: Iterable[int]) -> str:
    return " and ".join(map(str, depths))

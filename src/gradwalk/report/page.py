"""The page: every figure with what was run for it, the claims with their verdicts, errata and explorer, in one file.

It opens from disk and makes no network requests: style, script and Plotly are included.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradwalk import __version__, figures
from gradwalk.figures.outcomes import Line
from gradwalk.files import write_atomic
from gradwalk.report.claims import CLAIMS, findings
from gradwalk.report.committed import Committed, committed
from gradwalk.report.errata import LAYERS, distances, errata
from gradwalk.report.explorer import fragment
from gradwalk.report.finding import VERDICTS, Claim, Finding, Tables, figure_title
from gradwalk.report.opening import opening
from gradwalk.report.tables import read_tables

if TYPE_CHECKING:
    from gradwalk.figures.interactive.frame import Panel

FILE = "index.html"


@dataclass(frozen=True)
class FigureSection:
    """What the page shows of a figure; only its title and caption, and why it was left out, if it was not run."""

    figure: figures.Figure
    shown: bool = False
    here: str = ""
    panels: list[Panel] = field(default_factory=list)
    run: list[Line] = field(default_factory=list)
    summary: list[Line] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    left_out: str = ""


@dataclass(frozen=True)
class ClaimRow:
    """A claim, what came out, by how much the runs are smaller than the paper's, and the best committed finding."""

    claim: Claim
    finding: Finding
    reduced: str
    committed: Committed | None


def write_page(folder: Path, tables: Tables | None = None, left_out: Mapping[str, str] | None = None) -> Path:
    """Write the page into a folder and return its path.

    tables: by figure (default: those in the folder). left_out: why figures were not run, by name.
    """
    path = folder / FILE
    write_atomic(path, page(read_tables(folder) if tables is None else tables, folder, left_out))
    return path


def page(tables: Tables, folder: Path, left_out: Mapping[str, str] | None = None) -> str:
    """Return the page's HTML; it links to the pictures and tables that are in the folder."""
    rows = claim_rows(tables)
    papers = [row for row in rows if row.claim.in_paper]
    verdicts = [row.finding.verdict for row in papers]
    longest = [record.verdict for record in (committed().get(row.claim.name) for row in papers) if record is not None]
    shown = [figure for figure in figures.FIGURES if figure.in_paper or figure.name in tables]
    scales = dict.fromkeys(tables[name].made.get("scale", "") for name in tables if figures.FIGURES[name].in_paper)
    html: str = _template().render(
        style=_text("page.css"),
        script=_text("page.js"),
        plotly=_text("vendor/plotly-basic.min.js"),
        explorer=fragment(),
        opening=opening(tables, verdicts, longest),
        version=__version__,
        scales=[scale for scale in scales if scale],
        claims=papers,
        other_claims=[row for row in rows if not row.claim.in_paper],
        counts=[(verdict, verdicts.count(verdict)) for verdict in VERDICTS],
        figures=[_section(figure, tables, folder, left_out or {}) for figure in shown],
        errata=errata(),
        distances=distances(),
        layers=LAYERS,
        folder=folder,
    )
    return html


def claim_rows(tables: Tables) -> list[ClaimRow]:
    """Return the rows of the tables of claims."""
    return [
        ClaimRow(CLAIMS[name], finding, _reduced(CLAIMS[name], finding, tables), committed().get(name))
        for name, finding in findings(tables).items()
    ]


def _reduced(claim: Claim, finding: Finding, tables: Tables) -> str:
    """Return by how much the runs for the first of the claim's figures are smaller; empty without a verdict."""
    run = [name for name in claim.figures if name in tables]
    return figures.FIGURES[run[0]].reduction(tables[run[0]]) if run and finding.decided else ""


def _section(figure: figures.Figure, tables: Tables, folder: Path, left_out: Mapping[str, str]) -> FigureSection:
    if figure.name not in tables:
        return FigureSection(figure, left_out=left_out.get(figure.name, ""))
    table = tables[figure.name]
    names = [f"{figure.name}{ending}" for ending in (".png", ".pdf", ".csv")]
    return FigureSection(
        figure,
        shown=True,
        here=figure.scale_here(table),
        panels=figure.panels(table) if figure.panels else [],
        run=figure.what_was_run(table),
        summary=figure.summary(table),
        files=[name for name in names if (folder / name).exists()],
    )


def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"slug": _slug, "subscripts": _subscripts, "title_of": figure_title}
    return environment.from_string(_text("page.html"))


def _slug(words: str) -> str:
    return words.replace(" ", "-")


def _subscripts(words: str) -> Any:
    """Return HTML with `a_d` and `a_{d+1}` set as subscripts."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"_(?:\{([^}]*)\}|(\w))", r"<sub>\1\2</sub>", str(escape(words))))


def _text(name: str) -> str:
    return (files("gradwalk.report") / name).read_text("utf-8")

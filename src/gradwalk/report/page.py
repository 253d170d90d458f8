"""The page: every figure, what was run for it, the claims with their verdicts, errata and explorer, in one file.

It opens from disk and asks the network for nothing: style, script and Plotly are inside.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from gradwalk import __version__, figures
from gradwalk.data import title as data_title
from gradwalk.figures import table as tables_of
from gradwalk.figures.table import Table
from gradwalk.files import write_atomic
from gradwalk.report.claims import Claim, findings, our_findings
from gradwalk.report.errata import LAYERS, distances, errata
from gradwalk.report.explorer import fragment
from gradwalk.report.extent import Extent, reduced
from gradwalk.report.finding import NOT_RUN, VERDICTS, Finding, Tables, title
from gradwalk.report.plots import panels
from gradwalk.report.plots.frame import Panel
from gradwalk.report.runs import Line, what_was_run

FILE = "index.html"
CAPTIONS = {
    "fig1": "Walks of the gradient’s log-norm in a linear network at the predicted g, their mean and their variance.",
    "fig2": "Above, the g at which the walk has no drift, against the width. Below, the mean log-norm against g: "
    "between the dashed lines the gradient at the first layer is within a factor e of that at the last.",
    "fig3": "Training error on MNIST against g, coloured by depth; each network has as many parameters as the others.",
    "fig4a": "Training error on MNIST against depth and learning rates, tanh.",
    "fig4b": "Reconstruction error of MNIST auto-encoders with 30 code units against depth and learning rates, tanh.",
    "fig4c": "Training error on MNIST of networks of 1000 layers against the epoch, tanh.",
    "fig4d": "Training error on frames of speech (TIMIT) against depth and learning rates, tanh.",
    "initialisers": "Not in the paper: training loss after the same few steps against depth, for weights from each "
    "initialiser; the median over the seeds at the best of the same learning rates, bars from least to greatest.",
}


@dataclass(frozen=True)
class FigureSection:
    """What the page tells of a figure; nothing but its name and caption where it was not run."""

    name: str
    here: str
    panels: list[Panel]
    run: list[Line]
    summary: list[Line]
    files: list[str]

    @property
    def title(self) -> str:
        """Its name as the paper writes it."""
        return title(self.name)

    @property
    def caption(self) -> str:
        """What it shows, in a sentence."""
        return CAPTIONS[self.name]


@dataclass(frozen=True)
class ClaimRow:
    """A claim, what came out, and by how much the runs behind that are smaller than the paper's."""

    claim: Claim
    finding: Finding
    reduced: str


def write_page(folder: Path) -> Path:
    """Write the page of all tables that lie in the folder, and return its path."""
    path = folder / FILE
    write_atomic(path, page(read_tables(folder), folder))
    return path


def read_tables(folder: Path) -> dict[str, Table]:
    """Return the tables of figures that lie in the folder as CSV, by the figures' names."""
    paths = {name: folder / f"{name}.csv" for name in figures.EVERY}
    return {name: tables_of.read(path) for name, path in paths.items() if path.exists()}


def page(tables: Tables, folder: Path) -> str:
    """Return the page's HTML; links lead to those pictures and tables that lie in the folder."""
    from plotly.offline import get_plotlyjs

    rows, ours = claim_rows(tables), [name for name in figures.OURS if name in tables]
    scales = dict.fromkeys(tables[name].made.get("scale", "") for name in figures.TRAINED if name in tables)
    html: str = _template().render(
        style=_text("page.css"),
        script=_text("page.js"),
        plotly=get_plotlyjs(),
        explorer=fragment(),
        version=__version__,
        scales=[scale for scale in scales if scale],
        claims=rows,
        our_claims=_claim_rows(our_findings(tables), tables),
        counts=[(verdict, sum(row.finding.verdict == verdict for row in rows)) for verdict in VERDICTS],
        figures=[_section(name, tables, folder) for name in (*figures.NAMES, *ours)],
        errata=errata(),
        distances=distances(),
        layers=LAYERS,
        folder=folder,
    )
    return html


def claim_rows(tables: Tables) -> list[ClaimRow]:
    """Return the rows of the table of the paper's claims."""
    return _claim_rows(findings(tables), tables)


def _claim_rows(found: Sequence[tuple[Claim, Finding]], tables: Tables) -> list[ClaimRow]:
    return [ClaimRow(claim, finding, _reduced(claim, finding, tables)) for claim, finding in found]


def _reduced(claim: Claim, finding: Finding, tables: Tables) -> str:
    """How much smaller the runs are, of the first of the claim's figures; a claim that was not run has none."""
    there = [name for name in claim.figures if name in tables]
    return reduced(there[0], tables[there[0]]) if there and finding.verdict != NOT_RUN else ""


def _section(name: str, tables: Mapping[str, Table], folder: Path) -> FigureSection:
    if name not in tables:
        return FigureSection(name, "", [], [], [], [])
    table, endings = tables[name], (".png", ".pdf", ".csv")
    there = [f"{name}{ending}" for ending in endings if (folder / f"{name}{ending}").exists()]
    summary = figures.figure_module(name).summary(table)
    return FigureSection(name, _here(name, table), panels(name, table), what_was_run(name, table), summary, there)


def _here(name: str, table: Table) -> str:
    """What a trained figure shows here, in a sentence."""
    if name in figures.SIMULATED:
        return ""
    found = Extent.of(table)
    epochs = "1 epoch" if found.epochs == 1 else f"{found.epochs:.0f} epochs"
    return f"Here: {data_title(found.data)}, {found.examples:,.0f} examples, {epochs}."


def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"slug": _slug, "subscripts": _subscripts, "title_of": title}
    return environment.from_string(_text("page.html"))


def _slug(words: str) -> str:
    return words.replace(" ", "-")


def _subscripts(words: str) -> Any:
    """Return words with `a_d` and `a_{d+1}` set as subscripts."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"_(?:\{([^}]*)\}|(\w))", r"<sub>\1\2</sub>", str(escape(words))))


def _text(name: str) -> str:
    return (files("gradwalk.report") / name).read_text("utf-8")

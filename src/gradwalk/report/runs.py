"""What was run for a figure, a line a fact: how much of it, on what data, with what, when and for how long."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradwalk.data import full_size, title
from gradwalk.figures import OURS, SIMULATED
from gradwalk.figures.outcomes import unique
from gradwalk.figures.table import Column, Table
from gradwalk.report.extent import Extent, reduced
from gradwalk.words import duration

Line = tuple[str, str]

_RUN = ("activation", "weights", "depth", "gain", "rate_in", "rate_out", "seed")  # tells the runs of a table apart


def what_was_run(name: str, table: Table) -> list[Line]:
    """Return what the table of a figure rests on, a line a fact."""
    lines = _simulated(name, table) if name in SIMULATED else _trained(name, table)
    return [*lines, *_made(table)]


def _simulated(name: str, table: Table) -> list[Line]:
    facts = table.facts
    if name == "fig1":
        what = f"{facts['walks']:,.0f} walks of a linear network, N = {facts['width']:.0f}, D = {facts['depth']:.0f}"
    else:
        best = table.where(panel="best", activation="linear")
        what = (
            f"{len(best['width'])} widths with {facts['walks_best']:.0f} networks a point above, N = "
            f"{facts['width']:.0f} with {facts['walks_mean']:.0f} networks a point below, D = {facts['depth']:.0f}"
        )
    return [("scale", "the paper's own"), ("simulated", what), ("seed", f"{facts['seed']:.0f}")]


def _trained(name: str, table: Table) -> list[Line]:
    found, less = Extent.of(table), reduced(name, table)
    scale = table.made.get("scale", "not told")
    return [
        ("scale", scale if name in OURS else f"{scale}: {less or 'the paper’s own'}"),
        ("data", _data(table, found)),
        ("runs", _endings(table)),
        ("epochs", f"{found.epochs:.0f}"),
        *([] if np.isnan(table["params"]).all() else [("parameter limit", _listed(table["params"], ",.0f"))]),
        ("depths", f"{_listed(table['depth'])}, widest layers {_widths(table)}"),
        ("g", _listed(table["gain"])),
        ("λ in, λ out", f"{_listed(table['rate_in'])}; {_listed(table['rate_out'])}"),
        ("weights", ", ".join(sorted(set(table["weights"].tolist())))),
        ("seeds", _listed(table["seed"])),
    ]


def _data(table: Table, found: Extent) -> str:
    held = float(table["test_examples"].max())
    whole = full_size(found.data)
    of = f" of {whole:,}" if whole and found.examples < whole else ""
    note = table.made.get("note", "")
    return f"{title(found.data)}: {found.examples:,.0f}{of} to train on, {held:,.0f} held out" + (
        f". {note}" if note else ""
    )


def _endings(table: Table) -> str:
    """How many runs there were, and how they ended; a table with a row an epoch has several rows a run."""
    keys = zip(*(table[name].tolist() for name in _RUN), strict=True)
    ended = dict(zip(keys, table["status"].tolist(), strict=True))
    counts = [(status, sum(each == status for each in ended.values())) for status in ("done", "diverged", "failed")]
    return f"{len(ended)}: " + ", ".join(f"{count} {status}" for status, count in counts if count)


def _widths(table: Table) -> str:
    narrow, wide = table["width"].min(), table["width"].max()
    return f"{wide:.0f}" if narrow == wide else f"{wide:.0f} to {narrow:.0f}"


def _made(table: Table) -> list[Line]:
    """When, for how long and with what; a table of an older gradwalk does not tell."""
    made = table.made
    lines = [("date", made["date"])] if "date" in made else []
    if "seconds" in made:
        lines.append(("time", duration(float(made["seconds"]))))
    return lines + [(name, made[name]) for name in ("machine", "versions") if name in made]


def _listed(column: Column, digits: str = "g") -> str:
    values: Sequence[float] = unique(column[~np.isnan(column)])
    return ", ".join(f"{value:{digits}}" for value in values)

"""The best committed findings: what the tables in `results/` of the repository decide.

They come with the package as `committed.json`, so that the page of a small reproduction can show them next to its own
verdicts. `python results/summarise.py` writes the file; a test compares it with the tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from gradwalk import figures
from gradwalk.figures.outcomes import last_epochs
from gradwalk.files import write_atomic
from gradwalk.report.claims import CLAIMS
from gradwalk.report.finding import Claim, Finding, Verdict
from gradwalk.report.tables import read_tables

FILE = "committed.json"


@dataclass(frozen=True)
class Committed:
    """A committed finding: the verdict, what came out, the folder of its tables, and their scale in words."""

    verdict: Verdict
    came_out: str
    folder: str
    scale: str
    date: str


@cache
def committed() -> dict[str, Committed]:
    """Return the best committed finding on each claim, by its name."""
    records = json.loads((files("gradwalk.report") / FILE).read_text("utf-8"))
    return {name: Committed(**record) for name, record in records.items()}


def write_committed(results: Path) -> None:
    """Write `committed.json` into the package."""
    content = {name: asdict(record) for name, record in best_committed(results).items()}
    write_atomic(Path(__file__).with_name(FILE), json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def best_committed(results: Path) -> dict[str, Committed]:
    """Return the best finding on each claim among the folders of tables below `results`.

    A claim that is decided is better than one that is not; after that, more of its figures are better than fewer, and
    more training is better than less.
    """
    folders = {path.parent for path in results.rglob("*.csv")}
    tables = {folder: read_tables(folder) for folder in sorted(folders)}
    candidates = {claim.name: list(_candidates(claim, tables, results)) for claim in CLAIMS}
    return {name: max(each, key=lambda ranked: ranked[0])[1] for name, each in candidates.items() if each}


def _candidates(
    claim: Claim, folders: dict[Path, dict[str, figures.Table]], results: Path
) -> Iterator[tuple[tuple[bool, int, float], Committed]]:
    """Yield the findings on a claim with their rank."""
    for folder, tables in folders.items():
        names = [name for name in claim.figures if name in tables]
        if names:
            finding, table = claim.finding(tables), tables[names[0]]
            name = folder.relative_to(results).as_posix()
            yield (finding.decided, len(names), _effort(table)), _record(finding, names[0], table, name)


def _record(finding: Finding, figure: str, table: figures.Table, folder: str) -> Committed:
    scale = table.made.get("scale", "the paper’s own")
    reduction = figures.FIGURES[figure].reduction(table)
    words = f"{scale}: {reduction}" if reduction else scale
    return Committed(finding.verdict, finding.came_out, folder, words, table.made["date"].split()[0])


def _effort(table: figures.Table) -> float:
    """Return about how many parameters times examples all runs went through; 0 for a simulated table."""
    if "train_examples" not in table.frame:
        return 0.0
    runs = last_epochs(table.frame)
    return float((runs["depth"] * runs["width"] ** 2 * runs["train_examples"] * runs["epoch"]).sum())

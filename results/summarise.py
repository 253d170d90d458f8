"""Judge the tables of this folder: writes two tables of README.md, claims and initialisers, and findings of the page.

python results/summarise.py
"""

import math
from pathlib import Path

from gradwalk.figures import initialisers, table
from gradwalk.figures.loss_by_depth import CHANCE, COMPARED, LEARNED, loss_words, medians, title
from gradwalk.report import CLAIMS
from gradwalk.report.committed import Committed, best_committed, write_committed

RESULTS = Path(__file__).parent
COLUMNS = {
    **{name: title(name) for name in COMPARED},
    "leak, orthogonal": "with a leak",
    "f(100 a)/100, orthogonal": "f(100 a)/100",
}


def row(name: str, found: Committed) -> str:
    """Return the row of a claim."""
    cells = f"{name}: {CLAIMS[name].words}", found.came_out, found.verdict, f"{found.scale}, in {found.folder}/"
    return f"| {' | '.join(cells)} |"


def claims() -> str:
    """Return the table of claims."""
    rows = [row(name, found) for name, found in best_committed(RESULTS).items()]
    return "\n".join(["| claim | came out here | verdict | scale |", "|---|---|---|---|", *rows])


def losses() -> str:
    """Return the table of initialisers, the lowest loss of a row in bold if the network learned."""
    points = medians(initialisers.runs(table.read(RESULTS / "initialisers" / "initialisers.csv")))
    rows = [
        f"| {activation} | {depth:.0f} | {' | '.join(cells(dict(zip(same['weights'], same['loss'], strict=True))))} |"
        for activation in initialisers.ACTIVATIONS.values()
        for depth, same in points[points["panel"] == activation].groupby("depth")
    ]
    return "\n".join([f"| activation | D | {' | '.join(COLUMNS.values())} |", "|---" * (len(COLUMNS) + 2) + "|", *rows])


def cells(found: dict[str, float]) -> list[str]:
    """Return the losses of a row by initialiser in words, empty where it was not run."""
    least = min((loss for loss in found.values() if not math.isnan(loss)), default=math.inf)
    return [cell(found.get(name), least) for name in COLUMNS]


def cell(loss: float | None, least: float) -> str:
    """Return a loss in words."""
    if loss is None:
        return ""
    words = loss_words(loss)
    return f"**{words}**" if loss == least <= LEARNED * CHANCE else words


def write(text: str, name: str, lines: str) -> str:
    """Return the text with a table between its marks."""
    begin, end = f"<!-- {name}: written by summarise.py -->", f"<!-- end of {name} -->"
    before, rest = text.split(begin)
    return f"{before}{begin}\n\n{lines}\n\n{end}{rest.split(end)[1]}"


def main() -> None:
    """Write the tables and the findings."""
    readme = RESULTS / "README.md"
    text = readme.read_text("utf-8")
    for name, lines in (("claims", claims()), ("initialisers", losses())):
        text = write(text, name, lines)
    readme.write_text(text, "utf-8")
    write_committed(RESULTS)


if __name__ == "__main__":
    main()

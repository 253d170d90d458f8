"""Judge the tables of this folder: writes the table of claims in README.md, and the findings that the page shows.

python results/summarise.py
"""

from pathlib import Path

from gradwalk.report import CLAIMS
from gradwalk.report.committed import Committed, best_committed, write_committed

RESULTS = Path(__file__).parent
BEGIN, END = "<!-- claims: written by summarise.py -->", "<!-- end of claims -->"


def row(name: str, found: Committed) -> str:
    """Return the row of a claim."""
    cells = f"{name}: {CLAIMS[name].words}", found.came_out, found.verdict, f"{found.scale}, in {found.folder}/"
    return f"| {' | '.join(cells)} |"


def table() -> str:
    """Return the table of claims."""
    rows = [row(name, found) for name, found in best_committed(RESULTS).items()]
    return "\n".join(["| claim | came out here | verdict | scale |", "|---|---|---|---|", *rows])


def main() -> None:
    """Write the table and the findings."""
    readme = RESULTS / "README.md"
    before, rest = readme.read_text("utf-8").split(BEGIN)
    _, after = rest.split(END)
    readme.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}", "utf-8")
    write_committed(RESULTS)


if __name__ == "__main__":
    main()

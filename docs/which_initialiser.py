"""Write the table of docs/which-initialiser.md from the runs in results/initialisers.

python docs/which_initialiser.py
"""

from pathlib import Path

from gradwalk.figures import initialisers, loss_by_depth, table

ROOT = Path(__file__).parents[1]
PAGE, RUNS = ROOT / "docs" / "which-initialiser.md", ROOT / "results" / "initialisers" / "initialisers.csv"
BEGIN, END = "<!-- written by which_initialiser.py -->", "<!-- end -->"
HEAD = "| activation | layers | random walk | best of the five others | lowest |\n|---|---|---|---|---|"
WORDS = {"walk": "random walk", "peer": "the other", "tied": "level", "none": "none learned"}


def row(activation: str, contest: loss_by_depth.Contest) -> str:
    """Return the row of one depth."""
    walk = loss_by_depth.loss_of(contest.walk, contest.loss).removeprefix("random walk, ")
    other = loss_by_depth.loss_of(contest.peer, contest.peer_loss)
    return f"| {activation} | {contest.depth:.0f} | {walk} | {other} | {WORDS[contest.outcome]} |"


def comparison() -> str:
    """Return the table."""
    contests = loss_by_depth.contests(initialisers.runs(table.read(RUNS)))
    return "\n".join([HEAD, *(row(name, contest) for name, by_depth in contests.items() for contest in by_depth)])


def main() -> None:
    """Write the table into the page."""
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{comparison()}\n\n{END}{rest.split(END)[1]}", "utf-8")


if __name__ == "__main__":
    main()

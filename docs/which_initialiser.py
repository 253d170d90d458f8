"""Write the table of docs/which-initialiser.md from the runs in results/initialisers.

python docs/which_initialiser.py
"""

from pathlib import Path

from gradwalk.figures import initialisers, loss_by_depth, table

ROOT = Path(__file__).parents[1]
PAGE, RUNS = ROOT / "docs" / "which-initialiser.md", ROOT / "results" / "initialisers" / "initialisers.csv"
BEGIN, END = "<!-- written by which_initialiser.py -->", "<!-- end -->"
HEAD = "| activation | layers | random walk | best of the others | lowest of these | orthogonal walk with a leak |"
WORDS = {"walk": "random walk", "peer": "the other", "tied": "level", "none": "none learned"}
LEAK = loss_by_depth.remedied_weights("leak", "orthogonal")


def comparison() -> str:
    """Return the table."""
    runs = initialisers.runs(table.read(RUNS))
    contests, points = loss_by_depth.contests(runs), loss_by_depth.medians(runs)
    lines = [HEAD, "|---" * HEAD.count(" | ") + "|---|"]
    for name in initialisers.ACTIVATIONS.values():
        by_depth = {contest.depth: contest for contest in contests[name]}
        for depth, same in points[points["panel"] == name].groupby("depth"):
            losses = dict(zip(same["weights"], same["loss"], strict=True))
            leak = loss_by_depth.loss_words(losses[LEAK]) if LEAK in losses else ""
            cells = [name, f"{depth:.0f}", *_contest(by_depth.get(depth), losses), leak]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _contest(contest: loss_by_depth.Contest | None, losses: dict[str, float]) -> list[str]:
    """Return the best walk, the best of the others and which is lower; where only a walk was run, that one."""
    if contest is None:
        return [f"orthogonal {loss_by_depth.loss_words(losses['orthogonal'])}", "not run", ""]
    walk = loss_by_depth.loss_of(contest.walk, contest.loss).removeprefix("random walk, ")
    return [walk, loss_by_depth.loss_of(contest.peer, contest.peer_loss), WORDS[contest.outcome]]


def main() -> None:
    """Write the table into the page."""
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{comparison()}\n\n{END}{rest.split(END)[1]}", "utf-8")


if __name__ == "__main__":
    main()

"""Run the benchmarks, each in its own process, and write the results to benchmarks.json and benchmarks.md."""

import argparse
import datetime
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from setting import setting

HERE = Path(__file__).parent
NAMES = ("sampler", "pairs", "stack", "lone", "init", "probe", "monitor", "sweep")
NOT_VERSIONS = {"date", "command", "commit", "clean", "quick", "cores", "processor"}


def git(*arguments: str) -> str:
    """Return the output of a git command in this repository, or nothing where there is none.

    Space at the beginning stays: it is a column of `git status`.
    """
    result = subprocess.run(["git", "-C", str(HERE), *arguments], capture_output=True, text=True, check=False)
    return result.stdout.rstrip()


def made(quick: bool, out: Path) -> dict[str, Any]:
    """Return date, command, commit and machine; changes to the result files themselves do not count as unclean."""
    changed = [line[3:] for line in git("status", "--porcelain").splitlines()]
    own = {f"results/{out.name}{ending}" for ending in (".json", ".md")}
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join(["python", "benchmarks/run.py", *sys.argv[1:]]),
        "commit": git("rev-parse", "HEAD"),
        "clean": not [path for path in changed if path not in own],
        "quick": quick,
        **setting(),
    }


def run(name: str, quick: bool, parts: Sequence[str]) -> dict[str, Any]:
    """Run one benchmark, whose output is passed through, and return its answer with the seconds that it took."""
    print(f"\n== {name}", flush=True)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answer.json"
        command = [sys.executable, str(HERE / f"{name}.py"), "--json", str(file), *["--quick"] * quick]
        command += ["--parts", *parts] if parts else []
        code = subprocess.run(command, check=False).returncode
        answer: dict[str, Any] = json.loads(file.read_text()) if code == 0 else {"failed": f"ended with code {code}"}
    answer.pop("setting", None)
    return answer | {"seconds": round(time.monotonic() - start)}


def added(
    before: dict[str, Any], facts: dict[str, Any], answers: dict[str, dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the facts and answers of earlier results with those of further parts; both must be of one commit."""
    if (before["made"]["commit"], before["made"]["clean"]) != (facts["commit"], facts["clean"]):
        sys.exit("run: --add needs results of the same commit")
    both: dict[str, dict[str, Any]] = before["answers"]
    for name, answer in answers.items():
        both[name] = _joined(both[name], answer) if name in both else answer
    command = f"{before['made']['command']}; {facts['command']}"
    return facts | {"command": command, "quick": facts["quick"] or before["made"]["quick"]}, both


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return two parts of an answer as one; their tables have the same columns."""
    tables = [
        upper | {"rows": upper["rows"] + lower["rows"]}
        for upper, lower in zip(one["tables"], other["tables"], strict=True)
    ]
    summed = {key: one[key] + other[key] for key in ("targets", "numbers", "seconds")}
    return {"tables": tables, **summed}


def page(facts: dict[str, Any], answers: dict[str, dict[str, Any]]) -> str:
    """Return the answers as Markdown."""
    versions = ", ".join(f"{key} {value}" for key, value in facts.items() if key not in NOT_VERSIONS)
    lines = [
        "# Benchmarks",
        "",
        f"`{facts['command']}`, {facts['date']}, at commit {facts['commit'][:12] or 'unknown'} "
        f"({'clean tree' if facts['clean'] else 'with uncommitted changes'}); "
        f"{sum(answer['seconds'] for answer in answers.values())} s.",
        f"Machine: {facts['cores']} cores, {facts['processor']}. Versions: {versions}.",
        "",
        "Both sides of each ratio are timed in turns in the same run, after their answers have been compared. A ratio",
        "or rate is the median over the rounds, followed by the lowest and the highest. The head of each file in",
        "`benchmarks/` describes what it measures; all numbers are in the JSON file beside this page.",
    ]
    if facts["quick"]:
        lines += ["", "**Quick: the fewest rounds, to check that everything runs; do not quote these numbers.**"]
    targets = [target for answer in answers.values() for target in answer.get("targets", [])]
    if targets:
        rows = [(target["claim"], target["found"], "yes" if target["holds"] else "**no**") for target in targets]
        lines += ["", "## Targets", *markdown(("target", "measured", "holds"), rows)]
    for name, answer in answers.items():
        lines += ["", f"## {name}.py"]
        if "failed" in answer:
            lines += ["", f"It {answer['failed']}."]
        for table in answer.get("tables", []):
            lines += ["", f"{table['title']}:", *markdown(table["head"], table["rows"])]
    return "\n".join(lines) + "\n"


def markdown(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Return the lines of a Markdown table, after an empty line."""
    lines = ([cell.replace("|", r"\|") for cell in row] for row in (head, ["---"] * len(head), *rows))
    return ["", *(f"| {' | '.join(cells)} |" for cells in lines)]


def main() -> None:
    """Run the chosen benchmarks and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the fewest rounds, to check that they run")
    parser.add_argument(
        "--only",
        choices=NAMES,
        nargs="+",
        default=NAMES,
        metavar="NAME",
        help=f"default: all of {', '.join(NAMES)}",
    )
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "benchmarks", help="path without suffix")
    parser.add_argument("--parts", nargs="+", default=[], help="of a benchmark that has parts, such as 512x88")
    parser.add_argument("--add", action="store_true", help="add to the results of the same commit that are there")
    options = parser.parse_args()
    facts = made(options.quick, options.out)
    answers = {name: run(name, options.quick, options.parts) for name in options.only}
    if options.add:
        facts, answers = added(json.loads(options.out.with_suffix(".json").read_text()), facts, answers)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.with_suffix(".json").write_text(json.dumps({"made": facts, "answers": answers}, indent=1) + "\n")
    options.out.with_suffix(".md").write_text(page(facts, answers))
    print(f"\n{options.out.with_suffix('.md')}")
    if any("failed" in answer for answer in answers.values()):
        sys.exit("run: some benchmarks failed")


if __name__ == "__main__":
    main()

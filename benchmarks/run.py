"""Run the benchmarks, each as a process of its own, and write what they find to benchmarks.json and benchmarks.md."""

import argparse
import datetime
import json
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from setting import setting

HERE = Path(__file__).parent
NAMES = ("sampler", "stack", "init", "probe", "monitor", "sweep")
NOT_VERSIONS = {"date", "command", "commit", "clean", "quick", "cores", "processor"}


def git(*arguments: str) -> str:
    """Return what git says of the repository, nothing where there is none."""
    asked = subprocess.run(["git", "-C", str(HERE), *arguments], capture_output=True, text=True, check=False)
    return asked.stdout.strip()


def made(quick: bool, out: Path) -> dict[str, Any]:
    """Return when, where and from what the answers come; the results themselves do not make a tree unclean."""
    changed = [line[3:] for line in git("status", "--porcelain").splitlines()]
    mine = {f"results/{out.name}{ending}" for ending in (".json", ".md")}
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "command": shlex.join(["python", "benchmarks/run.py", *sys.argv[1:]]),
        "commit": git("rev-parse", "HEAD"),
        "clean": not [each for each in changed if each not in mine],
        "quick": quick,
        **setting(),
    }


def answer(name: str, quick: bool) -> dict[str, Any]:
    """Return what a benchmark finds, with the seconds that it took; what it prints goes on to whoever watches."""
    print(f"\n== {name}", flush=True)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answer.json"
        command = [sys.executable, str(HERE / f"{name}.py"), "--json", str(file), *["--quick"] * quick]
        code = subprocess.run(command, check=False).returncode
        found: dict[str, Any] = json.loads(file.read_text()) if code == 0 else {"failed": f"ended with code {code}"}
    found.pop("setting", None)
    return found | {"seconds": round(time.monotonic() - start)}


def page(facts: dict[str, Any], answers: dict[str, dict[str, Any]]) -> str:
    """Return the answers as Markdown."""
    versions = ", ".join(f"{key} {value}" for key, value in facts.items() if key not in NOT_VERSIONS)
    lines = [
        "# Benchmarks",
        "",
        f"`{facts['command']}`, {facts['date']}, at commit {facts['commit'][:12] or 'unknown'} "
        f"({'clean tree' if facts['clean'] else 'with changes that are not committed'}); "
        f"{sum(each['seconds'] for each in answers.values())} s.",
        f"Machine: {facts['cores']} cores, {facts['processor']}. Versions: {versions}.",
        "",
        "Both sides of each ratio are timed in one run, in turns, their answers compared first. A ratio or rate is the",
        "median over the rounds, with the least and the greatest round behind it. What a benchmark does is told at the",
        "top of its file in `benchmarks/`; all numbers are in the JSON file beside this page.",
    ]
    if facts["quick"]:
        lines += ["", "**Quick: the fewest rounds, to see that it runs; not to be quoted.**"]
    targets = [each for found in answers.values() for each in found.get("targets", [])]
    if targets:
        rows = [(each["claim"], each["found"], "yes" if each["holds"] else "**no**") for each in targets]
        lines += ["", "## Targets", *markdown(("target", "found", "holds"), rows)]
    for name, found in answers.items():
        lines += ["", f"## {name}.py"]
        if "failed" in found:
            lines += ["", f"It {found['failed']}."]
        for table in found.get("tables", []):
            lines += ["", f"{table['title']}:", *markdown(table["head"], table["rows"])]
    return "\n".join(lines) + "\n"


def markdown(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Return a table of Markdown, after an empty line."""
    lines = ([cell.replace("|", r"\|") for cell in row] for row in (head, ["---"] * len(head), *rows))
    return ["", *(f"| {' | '.join(cells)} |" for cells in lines)]


def main() -> None:
    """Run what is asked for, and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the fewest rounds: to see that they run")
    parser.add_argument(
        "--only", choices=NAMES, nargs="+", default=NAMES, metavar="NAME", help="of: " + ", ".join(NAMES)
    )
    parser.add_argument("--out", type=Path, default=HERE.parent / "results" / "benchmarks", help="file, without ending")
    options = parser.parse_args()
    facts = made(options.quick, options.out)
    answers = {name: answer(name, options.quick) for name in options.only}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.with_suffix(".json").write_text(json.dumps({"made": facts, "answers": answers}, indent=1) + "\n")
    options.out.with_suffix(".md").write_text(page(facts, answers))
    print(f"\n{options.out.with_suffix('.md')}")
    if any("failed" in found for found in answers.values()):
        sys.exit("run: not every benchmark came to its end")


if __name__ == "__main__":
    main()

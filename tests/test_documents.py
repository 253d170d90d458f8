"""What README and docs/ show is run, each code block as it stands, in an empty folder, and prints what they say.

A `text` block right after a block of code is its output. Numbers in it may differ by one unit in the last place, whole
ones not at all, percentages by five: those are of trained networks, which grow apart with the last bits of a machine's
matrix products. `...` stands for anything. Blocks marked `sh` go on from one another: test_sweep.py runs them.
"""

import math
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
NEEDED = {"flax": "flax", "equinox": "equinox", "gradwalk.jax": "jax", "gradwalk.keras": "keras", "torch": "torch"}
NEEDED |= {"gradwalk.sweep": "torch", "gradwalk.train": "torch"}
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?%?(?!\w)")


@dataclass(frozen=True)
class Block:
    """A block of code with its place and the output shown after it."""

    name: str
    language: str
    code: str
    output: str | None


def blocks(path: Path) -> list[Block]:
    text = path.read_text("utf-8")
    found = list(BLOCK.finditer(text))
    outputs = [
        after[2] if after[1] == "text" and not text[before.end() : after.start()].strip() else None
        for before, after in pairwise(found)
    ]
    return [
        Block(f"{path.name}-{place}", match[1], match[2], output)
        for place, (match, output) in enumerate(zip_longest(found, outputs))
    ]


ALL = [block for path in DOCUMENTS for block in blocks(path)]
PYTHON = [pytest.param(block, id=block.name) for block in ALL if block.language == "python"]
COMMANDS = [
    pytest.param(line, block.output, id=f"{block.name}-{line[:40]}")
    for block in ALL
    if not block.language
    for line in block.code.splitlines()
    if re.match(r"gradwalk (?!reproduce all)", line)  # takes long, and test_cli.py runs it
]


def run(command: list[str], folder: Path) -> str:
    """Return what the command prints; it must end well."""
    scripts = str(Path(sys.executable).parent)
    more = {"KERAS_BACKEND": "jax", "PYTHONUTF8": "1", "PATH": scripts + os.pathsep + os.environ["PATH"]}
    done = subprocess.run(
        command, cwd=folder, env=os.environ | more, capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def differences(shown: str, printed: str) -> list[str]:
    """Return where what was printed is not what is shown."""
    wanted, got = ("\n".join(" ".join(line.split()) for line in text.strip().splitlines()) for text in (shown, printed))
    words = [".*".join(map(re.escape, part.split("..."))) for part in NUMBER.split(wanted)]
    match = re.fullmatch(f"({NUMBER.pattern})".join(words), got, re.DOTALL)
    if match is None:
        return [f"shown:\n{wanted}\nprinted:\n{got}"]
    pairs = zip(NUMBER.findall(wanted), match.groups(), strict=True)
    return [f"{number} is shown, {found} was printed" for number, found in pairs if not same(number, found)]


def same(shown: str, printed: str) -> bool:
    """Whether two numbers agree: whole ones exactly, percentages within 5, others to a unit in the last place."""
    if re.fullmatch(r"[-+\d,]+", shown):
        return shown == printed
    value, found = (float(each.rstrip("%").replace(",", "")) for each in (shown, printed))
    digits, _, power = shown.rstrip("%").partition("e")
    unit = 5.0 if shown.endswith("%") else 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    return math.isclose(value, found, rel_tol=1e-6, abs_tol=1.001 * unit)


@pytest.mark.parametrize("block", PYTHON)
def test_python_block_runs_and_prints_what_is_shown(block: Block, tmp_path: Path) -> None:
    for name, package in NEEDED.items():
        if f"import {name}" in block.code or f"from {name}" in block.code:
            pytest.importorskip(package)
    printed = run([sys.executable, "-c", block.code], tmp_path)
    if block.output is not None:
        assert differences(block.output, printed) == []


@pytest.mark.parametrize(("line", "output"), COMMANDS)
def test_command_runs_and_prints_what_is_shown(line: str, output: str | None, tmp_path: Path) -> None:
    printed = run(shlex.split(line, comments=True), tmp_path)
    assert printed
    if output is not None:
        assert differences(output, printed) == []


def test_every_link_to_a_file_leads_somewhere() -> None:
    for path in (*DOCUMENTS, ROOT / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text("utf-8")):
            assert target.startswith("https://") or (path.parent / target).exists(), f"{path.name} names {target}"


def test_every_target_of_make_that_is_named_exists() -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    for path in (*DOCUMENTS, ROOT / "CONTRIBUTING.md"):
        named = re.findall(r"(?:^|`)make (\w+)", path.read_text("utf-8"), re.MULTILINE)
        assert set(named) <= set(targets), path.name


def test_every_module_is_in_the_architecture() -> None:
    told = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "architecture.md").read_text("utf-8")))
    parts = {path.stem for path in (ROOT / "src" / "gradwalk").iterdir() if not path.name.startswith(("_", "py.typed"))}
    assert parts <= told


def test_blocks_are_found() -> None:
    assert len(PYTHON) >= 10
    assert len(COMMANDS) >= 5
    assert sum(block.values[0].output is not None for block in PYTHON) >= 8
    assert sum(command.values[1] is not None for command in COMMANDS) >= 2


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("gain 1.43", "gain 1.45"),
        ("20 layers", "21 layers"),
        ("learned 15%", "learned 21%"),
        ("a loss of 2.2e-24", "a loss of 2.5e-24"),
        ("healthy", "vanishing"),
        ("one\ntwo", "one two"),
        ("fig1.csv", "fig2.csv"),
        ("took ... s", "took 3 min"),
    ],
)
def test_other_output_is_told(shown: str, printed: str) -> None:
    assert differences(shown, printed) != []


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("gain  1.4323 \n", "gain 1.4324"),
        ("1.4323035654111655", "1.4323035654111601"),
        ("learned 15%", "learned 19%"),
        ("took ... s, error -0.03", "took 3.1 s, error -0.02"),
        ("from 198 back to 0", "from 198 back to 0"),
    ],
)
def test_the_same_output_passes(shown: str, printed: str) -> None:
    assert differences(shown, printed) == []

"""The code in README.md and docs/ runs, and prints what is shown.

A `text` block right after a code block is its output. Numbers in it may differ by one unit in the last place, whole
numbers not at all, percentages by five: those belong to trained networks, whose errors depend on the last bits of a
machine's matrix products. `...` stands for anything.

Each `python` block runs by itself in an empty folder, except in the tutorial, whose blocks continue one another. The
commands of a document, in blocks marked `sh` or not marked at all, run one after the other in one folder, in which a
`toml` block is the file that the line before it names. Commands that need a cluster or many minutes are only parsed.
"""

import re
import shlex
import tomllib
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path

import pytest
from helpers.shown import differences, torch_seed_restored

from gradwalk import cli

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
NOT_HERE = re.compile(r"gradwalk reproduce all|--address")
REQUIRED = {"flax": "flax", "equinox": "equinox", "gradwalk.jax": "jax", "gradwalk.keras": "keras", "torch": "torch"}
REQUIRED |= {"gradwalk.sweep": "torch", "gradwalk.train": "torch"}
CONTINUED = {"tutorial.md"}


@dataclass(frozen=True)
class Block:
    """A block of a document, the line before it, and the output shown after it."""

    document: str
    place: int
    language: str
    text: str
    before: str
    output: str | None

    @property
    def commands(self) -> list[str]:
        """The commands in it that can run here."""
        lines = self.text.splitlines() if self.language in ("", "sh") else []
        return [line for line in lines if line.startswith("gradwalk ") and not NOT_HERE.search(line)]


def blocks(path: Path) -> list[Block]:
    text = path.read_text("utf-8")
    matches = list(BLOCK.finditer(text))
    outputs = [
        after[2] if after[1] == "text" and not text[before.end() : after.start()].strip() else None
        for before, after in pairwise(matches)
    ]
    return [
        Block(path.name, place, match[1], match[2], text[: match.start()].rstrip().rpartition("\n")[2], output)
        for place, (match, output) in enumerate(zip_longest(matches, outputs))
    ]


def parameters(chosen: list[Block]) -> list:
    return [pytest.param(block, id=f"{block.document}-{block.place}") for block in chosen]


def programs(chosen: list[Block]) -> list:
    """Return lists of blocks that run in one namespace: all of a document that is continued, else one block each."""
    continued = [[block for block in chosen if block.document == name] for name in sorted(CONTINUED)]
    single = [[block] for block in chosen if block.document not in CONTINUED]
    return [pytest.param(blocks, id=f"{blocks[0].document}-{blocks[0].place}") for blocks in [*continued, *single]]


ALL = [block for path in DOCUMENTS for block in blocks(path)]
PYTHON = [block for block in ALL if block.language == "python"]
COMMANDS = [block for block in ALL if block.commands]
TOML = [block for block in ALL if block.language == "toml"]


def run_command(line: str, capsys) -> str:
    """Return what the command prints; it must succeed."""
    with pytest.raises(SystemExit) as ended:
        cli.main(shlex.split(line, comments=True)[1:])
    printed, complaint = capsys.readouterr()
    assert ended.value.code == 0, f"{line}: {complaint}"
    return printed


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras converts a variable
@pytest.mark.parametrize("program", programs(PYTHON))
def test_python_blocks_run_and_print_what_is_shown(program: list[Block], tmp_path: Path, monkeypatch, capsys) -> None:
    for name, package in REQUIRED.items():
        if any(f"import {name}" in block.text or f"from {name}" in block.text for block in program):
            pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    with torch_seed_restored():
        for block in program:
            exec(compile(block.text, f"{block.document}-{block.place}", "exec"), namespace)
            printed = capsys.readouterr().out
            assert block.output is None or differences(block.output, printed) == []


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """One folder per document, with the files that it shows."""
    folders = {path.name: tmp_path_factory.mktemp(path.stem) for path in DOCUMENTS}
    for block in TOML:
        for name in re.findall(r"`([\w-]+\.toml)`", block.before):
            (folders[block.document] / name).write_text(block.text, "utf-8")
    return folders


@pytest.mark.parametrize("block", parameters(COMMANDS))
def test_commands_run_and_print_what_is_shown(block: Block, folders: dict[str, Path], monkeypatch, capsys) -> None:
    for word, package in (("gradwalk sweep", "torch"), ("gradwalk train", "torch"), (".parquet", "pyarrow")):
        if word in block.text:
            pytest.importorskip(package)
    monkeypatch.chdir(folders[block.document])
    printed = [run_command(line, capsys) for line in block.commands]
    assert all(printed)
    if block.output is not None:
        assert differences(block.output, "".join(printed)) == []


@pytest.mark.parametrize("block", parameters(TOML))
def test_toml_is_valid(block: Block) -> None:
    assert tomllib.loads(block.text)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_that_is_mentioned_exists_with_its_options(path: Path, capsys) -> None:
    for line in re.findall(r"(?:^|`)(gradwalk [a-z][^`\n]*)", path.read_text("utf-8"), re.MULTILINE):
        run_command(f"{line.partition('#')[0]} --help", capsys)


def test_every_link_to_a_file_leads_somewhere() -> None:
    for path in (*DOCUMENTS, ROOT / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text("utf-8")):
            assert target.startswith("https://") or (path.parent / target).exists(), f"{path.name} names {target}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_no_text_is_taken_for_a_tag(path: Path) -> None:
    """Outside code, a browser shows nothing of what stands between < and >."""
    text = re.sub(r"`[^`]*`", "", BLOCK.sub("", path.read_text("utf-8")))
    assert not re.findall(r"</?(?!!--)\w[^>]*>", text)


def test_every_target_of_make_that_is_named_exists() -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    for path in (*DOCUMENTS, ROOT / "CONTRIBUTING.md"):
        named = re.findall(r"(?:^|`)make (\w+)", path.read_text("utf-8"), re.MULTILINE)
        assert set(named) <= set(targets), path.name


def test_every_module_is_in_the_architecture() -> None:
    named = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "architecture.md").read_text("utf-8")))
    parts = {path.stem for path in (ROOT / "src" / "gradwalk").iterdir() if not path.name.startswith(("_", "py.typed"))}
    assert parts <= named


def test_blocks_are_found() -> None:
    assert len(PYTHON) >= 10
    assert sum(len(block.commands) for block in COMMANDS) >= 12
    assert sum(block.language == "sh" for block in COMMANDS) >= 2
    assert sum(block.output is not None for block in PYTHON) >= 8
    assert sum(block.output is not None for block in COMMANDS) >= 2
    for block in ALL:
        assert block.language in ("", "python", "sh", "text", "toml"), f"{block.document} has a {block.language} block"


# The comparison


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
def test_other_output_is_reported(shown: str, printed: str) -> None:
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

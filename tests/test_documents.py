"""What README and docs/ show is run, each code block as it stands, in an empty folder."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
NEEDED = {"flax": "flax", "equinox": "equinox", "gradwalk.jax": "jax", "gradwalk.keras": "keras", "torch": "torch"}


def blocks(language):
    return [
        pytest.param(text, id=f"{path.name}-{number}")
        for path in DOCUMENTS
        for number, (found, text) in enumerate(BLOCK.findall(path.read_text()))
        if found == language
    ]


def run(command, folder):
    scripts = str(Path(sys.executable).parent)
    environment = os.environ | {"KERAS_BACKEND": "jax", "PATH": scripts + os.pathsep + os.environ["PATH"]}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("code", blocks("python"))
def test_python_block_runs(code, tmp_path):
    for name, package in NEEDED.items():
        if f"import {name}" in code or f"from {name}" in code:
            pytest.importorskip(package)
    done = run([sys.executable, "-c", code], tmp_path)
    assert done.returncode == 0, done.stderr


COMMANDS = [
    pytest.param(line, id=line[:40])
    for block in blocks("")
    for line in block.values[0].splitlines()
    if re.match(r"gradwalk (?!reproduce)", line)  # reproduce takes long, and test_cli.py runs it
]


@pytest.mark.parametrize("line", COMMANDS)
def test_command_runs(line, tmp_path):
    done = run(shlex.split(line, comments=True), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_every_link_to_a_file_leads_somewhere():
    for path in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} names {target}"


def test_blocks_are_found():
    assert len(blocks("python")) >= 1
    assert len(COMMANDS) >= 3

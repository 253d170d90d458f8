"""What the files around the package say of it agrees: versions, Pythons, extras and make targets."""

import re
import tomllib
from pathlib import Path

import gradwalk

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOW = (ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8")


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def test_all_files_name_the_same_version() -> None:
    version = gradwalk.__version__
    assert re.search(rf"^version: {re.escape(version)}$", text("CITATION.cff"), re.MULTILINE)
    assert f"version = {{{version}}}" in text("docs/cite.md")
    assert re.search(r"^## (\S+)", text("CHANGELOG.md"), re.MULTILINE)[1] == version


def test_the_workflow_runs_every_python_that_the_classifiers_name() -> None:
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert re.findall(r'"(3\.\d+)"', re.search(r"python: \[(.*)\]", WORKFLOW)[1]) == named
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_every_extra_that_is_named_exists() -> None:
    files = (
        "README.md",
        "CONTRIBUTING.md",
        "Makefile",
        "docs/faq.md",
        "docs/tutorial.md",
        ".github/workflows/tests.yml",
    )
    for name in files:
        for extras in re.findall(r"(?:gradwalk|\.)\[([a-z,]+)\]|_EXTRAS := ([a-z,]+)", text(name)):
            assert set("".join(extras).split(",")) <= set(PROJECT["optional-dependencies"]), name


def test_every_make_target_is_explained_by_make_help() -> None:
    targets = set(re.search(r"^\.PHONY: (.*)$", text("Makefile"), re.MULTILINE)[1].split()) - {"help", "lint"}
    assert targets == set(re.findall(r'@echo "make (\w+)', text("Makefile")))

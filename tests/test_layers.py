"""Imports run one way, and `import gradwalk` loads no framework and nothing slow that it may not need."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "gradwalk"

# Small modules without a subject of their own, which every part may import.
FOUNDATION = {"checks", "files", "interrupts", "progress", "registry", "versions", "words"}

# What else each part may import of gradwalk. theory and simulation never import each other, so that a test that
# compares them is evidence.
ALLOWED = {name: set() for name in FOUNDATION} | {
    "activations": {"activations"},
    "theory": {"activations", "theory"},
    "blocks": {"activations"},
    "simulation": {"activations", "blocks", "simulation"},
    "gains": {"activations", "blocks", "gains", "simulation", "theory"},
    "branches": {"activations", "blocks", "simulation", "theory"},
    "plans": set(),
    "chains": {"activations", "chains", "gains", "plans", "theory"},
    "torch": {"activations", "chains", "gains", "plans", "simulation", "theory", "torch"},
    "jax": {"activations", "chains", "gains", "jax", "plans"},
    "keras": {"activations", "chains", "gains", "keras", "plans"},
    "data": {"data"},
    "nets": {"activations", "gains", "nets", "torch"},
    "train": {"activations", "data", "gains", "nets", "train"},
    "sweep": {"activations", "data", "gains", "nets", "sweep", "train"},
    "figures": {"activations", "data", "figures", "gains", "nets", "simulation", "sweep", "theory", "train"},
    "report": {"activations", "data", "figures", "gains", "nets", "report", "theory"},
    "reproduction": {"data", "figures", "report", "sweep"},
    "cli": {"activations", "cli", "data", "figures", "gains", "nets", "report", "reproduction", "simulation", "sweep"}
    | {"theory", "train"},
    "__init__": {"activations", "blocks", "branches", "gains", "reproduction", "simulation", "theory"},
}


def imported_parts(code):
    """Return the parts of gradwalk that a module imports, at its top or inside a function."""
    parts = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        parts |= {module.split(".")[1] for module in modules if module.startswith("gradwalk.")}
    return parts - {"__version__"}


def part(path):
    relative = path.relative_to(SOURCE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_run_one_way(path):
    extra = imported_parts(path.read_text()) - ALLOWED[part(path)] - FOUNDATION
    assert not extra, f"{path.name} may not import {extra}"


def test_the_scan_sees_what_it_must_see():
    assert imported_parts("def f():\n    from gradwalk.simulation.exact import X\n") == {"simulation"}
    assert imported_parts("import gradwalk.theory.steps") == {"theory"}
    assert imported_parts("from gradwalk import simulation, checks") == {"simulation", "checks"}


HEAVY = {"torch", "jax", "keras", "tensorflow", "matplotlib", "typer", "rich", "scipy.optimize"}


def loaded(statement):
    code = f"import sys; {statement}; print(*sorted({HEAVY!r} & set(sys.modules)))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_import_gradwalk_loads_no_framework():
    assert loaded("import gradwalk") == set()


def test_the_check_for_frameworks_can_fail():
    assert loaded("import gradwalk, rich") == {"rich"}

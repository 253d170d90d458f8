"""Imports run one way, and `import gradwalk` loads no framework and nothing slow that it may not need."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from gradwalk.sweep.writer import Writer

SOURCE = Path(__file__).parents[1] / "src" / "gradwalk"

# Small modules without a subject of their own, which every part may import.
FOUNDATION = {"checks", "display", "files", "interrupts", "lazy", "progress", "registry", "versions", "words"}

# What else each part may import of gradwalk. theory and simulation never import each other, so that a test that
# compares them is evidence.
ALLOWED = {name: set() for name in FOUNDATION} | {
    "activations": {"activations"},
    "theory": {"activations", "theory"},
    "blocks": {"activations"},
    "simulation": {"activations", "blocks", "simulation"},
    "gains": {"activations", "blocks", "gains", "simulation", "theory"},
    "remedies": {"activations", "gains", "remedies", "simulation", "theory"},
    "branches": {"activations", "blocks", "simulation", "theory"},
    "plans": set(),
    "chains": {"activations", "chains", "gains", "plans", "theory"},
    "torch": {"activations", "chains", "gains", "plans", "simulation", "theory", "torch"},
    "jax": {"activations", "chains", "gains", "jax", "plans"},
    "keras": {"activations", "chains", "gains", "keras", "plans"},
    "data": {"data"},
    "compiled": {"compiled"},
    "nets": {"activations", "compiled", "gains", "nets", "torch"},
    "train": {"activations", "data", "gains", "nets", "train"},
    "sweep": {"activations", "data", "gains", "nets", "sweep", "train"},
    "figures": {
        "activations",
        "data",
        "figures",
        "gains",
        "nets",
        "remedies",
        "simulation",
        "sweep",
        "theory",
        "train",
    },
    "report": {"activations", "data", "figures", "gains", "nets", "remedies", "report", "theory"},
    "reproduction": {"data", "figures", "report", "sweep"},
    "cli": {"activations", "cli", "data", "figures", "gains", "nets", "remedies", "report", "reproduction"}
    | {"simulation", "sweep", "theory", "train"},
    "__init__": {"activations", "blocks", "branches", "gains", "remedies", "reproduction", "simulation", "theory"},
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


HEAVY = {"torch", "jax", "keras", "numba", "tensorflow", "matplotlib", "pandas", "typer", "rich", "scipy.optimize"}


def loaded(statement):
    code = f"{statement}\nimport sys; print(*sorted({HEAVY!r} & set(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return set(output.splitlines()[-1].split())


def test_import_gradwalk_loads_no_framework():
    assert loaded("import gradwalk") == set()


def test_the_check_for_frameworks_can_fail():
    assert loaded("import gradwalk, rich") == {"rich"}


def test_a_plan_imports_no_torch_and_no_pandas():
    spec = "data = 'digits'\\nwidth = 4"
    statement = f'from gradwalk.sweep import Spec, plan; plan(Spec.load("{spec}"), measure=False)'
    assert loaded(statement) == set()


def test_the_command_that_shows_a_sweep_imports_no_torch_and_no_pandas(tmp_path):
    Writer(tmp_path).close()
    command = f"main(['sweep', 'status', {str(tmp_path)!r}])"
    shown = loaded(f"from gradwalk.cli import main\ntry: {command}\nexcept SystemExit: pass")
    assert shown == {"typer", "rich"}


@pytest.mark.parametrize("package", ["gradwalk", "gradwalk.nets", "gradwalk.sweep", "gradwalk.train"])
def test_every_name_of_a_package_is_there_when_it_is_used(package):
    module = importlib.import_module(package)
    assert all(getattr(module, name) is not None for name in module.__all__)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = module.nothing


def test_a_lazy_name_is_not_that_of_a_module():
    for package in ("nets", "sweep", "train"):
        names = set(importlib.import_module(f"gradwalk.{package}").__all__)
        lazy = {
            name for name in names if f'"{name}"' in (SOURCE / package / "__init__.py").read_text().split("__all__")[0]
        }
        assert not lazy & {path.stem for path in (SOURCE / package).glob("*.py")}

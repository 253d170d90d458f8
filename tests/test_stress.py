"""A short run of each script in stress/; `make fuzz` and `make stress` are the long ones."""

import random
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("typer")

STRESS = Path(__file__).parents[1] / "stress"


@pytest.fixture
def scripts(monkeypatch, tmp_path):
    """The folder of the scripts on the path, and the current folder that of the test."""
    monkeypatch.syspath_prepend(STRESS)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("scripts")
def test_random_calls_are_answered_rightly_or_refused_in_one_sentence(capsys):
    import fuzz

    outcomes = fuzz.fuzz(range(300), seed=7)
    assert outcomes["finding"] == 0, capsys.readouterr().out
    assert min(outcomes["answered"], outcomes["refused"], outcomes["exit 2"]) > 5


@pytest.mark.usefixtures("scripts")
def test_the_fuzzer_finds_what_is_wrong(monkeypatch, capsys):
    import fuzz
    from fuzzing.targets import Target

    broken = [
        Target("overflows", lambda: 10.0**400),
        Target("has lines", lambda: (_ for _ in ()).throw(ValueError("one\ntwo"))),
        Target("is unnamed", lambda: int("x", 99)),
        Target("is wrong", lambda: 7, check=lambda arguments, answer: 1 / 0),
    ]
    monkeypatch.setattr(fuzz, "COMMANDS", 0.0)
    for target in broken:
        monkeypatch.setattr(fuzz, "TARGETS", [target])
        assert fuzz.fuzz(range(1), seed=0)["finding"] == 1, target.name


@pytest.mark.usefixtures("scripts")
@pytest.mark.parametrize("kind", ["checkpoints", "stores", "archives"])
def test_random_bit_flips_are_told_or_harmless(kind, tmp_path):
    import flips

    outcomes = flips.KINDS[kind](8, random.Random(1), tmp_path)
    assert (sum(outcomes.values()), outcomes["SILENT"]) == (8, 0)

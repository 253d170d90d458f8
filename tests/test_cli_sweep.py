"""`gradwalk sweep`: a spec is run, inspected, exported and plotted, and errors are one line."""

import json
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
from helpers.small_sweep import SMALL

pytest.importorskip("torch")
pytest.importorskip("pydantic")

from gradwalk import cli
from gradwalk.sweep import engine


def command(capsys, *arguments):
    """Exit code, stdout and stderr."""
    with pytest.raises(SystemExit) as ended:
        cli.main(["sweep", *map(str, arguments)])
    return (ended.value.code, *capsys.readouterr())


def test_a_spec_is_run_inspected_exported_and_plotted(tmp_path, capsys):
    spec, out = tmp_path / "mine.toml", tmp_path / "out"
    spec.write_text(SMALL)
    code, printed, errors = command(capsys, spec, "gain=[1.0, 1.1, 1.2]", "--out", out)
    assert code == 0
    assert [line.split() for line in printed.splitlines()[1:5]] == [
        *(["runs", "6"], ["done", "6"], ["diverged", "0"], ["failed", "0"])
    ]
    assert "best training error" in printed
    assert errors == "mine: 0 of 6 runs\n"
    code, printed, _ = command(capsys, "run", spec, "--out", out, "--json")
    answer = json.loads(printed)
    assert (answer["runs"], answer["done"], answer["kept"], answer["best"]["data"]) == (4, 4, 4, "digits")
    code, printed, _ = command(capsys, "status", out)
    assert (code, printed.splitlines()[9].split()) == (0, ["process", "not", "running"])
    code, printed, _ = command(capsys, "status", out, "--json")
    assert json.loads(printed)["done"] == 6
    for name, rows in (("runs.csv", 6), ("runs.parquet", 6)):
        assert (
            command(capsys, "export", out, "--to", tmp_path / name)[1] == f"written: {tmp_path / name}, {rows} rows\n"
        )
    assert "12 rows" in command(capsys, "export", out, "--to", tmp_path / "epochs.csv", "--epochs")[1]
    epochs = pd.read_csv(tmp_path / "epochs.csv")
    assert sorted(set(zip(epochs["depth"], epochs["gain"], strict=True))) == [
        *product((3, 4), (1.0, 1.1, 1.2)),
    ]
    assert command(capsys, "plot", out, "--out", tmp_path / "mine.png")[0] == 0
    assert (tmp_path / "mine.png").read_bytes().startswith(b"\x89PNG")


def test_a_dry_run_prints_the_plan_and_writes_nothing(tmp_path, capsys):
    spec = tmp_path / "mine.toml"
    spec.write_text(SMALL)
    code, printed, _ = command(capsys, spec, "--dry-run", "--out", tmp_path / "out", "--threads", "1")
    assert code == 0
    assert "tanh D=3 N=" in printed
    assert "time with 1 threads" in printed
    code, printed, _ = command(capsys, spec, "--dry-run", "--json")
    assert json.loads(printed)["rows"][1]["runs"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mine.toml", "epohs=3"], "there is no setting 'epohs'; did you mean 'epochs'?"),
        (["nowhere.toml"], "cannot use nowhere.toml: No such file or directory"),
        (["status", "nowhere"], "there is no sweep in nowhere (no file sweep.sqlite)"),
        (["export", "nowhere", "--to", "x.xls"], "a table is written as .csv or .parquet, got 'x.xls'"),
        (["plot", "nowhere", "--out", "x.gif"], "a figure is written as .png, .pdf, .svg, got 'x.gif'"),
        (["mine.toml", "--address", "auto"], "--engine 'local' takes no address, got --address 'auto'"),
        (["mine.toml", "--threads", "-1"], "--threads must be at least 1, got --threads -1"),
    ],
)
def test_errors_are_one_line_with_exit_code_2(tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(SMALL)
    code, printed, errors = command(capsys, *arguments)
    assert (code, printed, errors.count("\n")) == (2, "", 1)
    assert errors.startswith(f"gradwalk: {message}")


def test_failed_runs_are_reported_with_exit_code_1(tmp_path, capsys, monkeypatch):
    def fails(*arguments, **options):
        raise ValueError("train: no luck")

    monkeypatch.setattr(engine, "train", fails)
    spec = tmp_path / "mine.toml"
    spec.write_text(SMALL)
    code, printed, _ = command(capsys, spec, "--out", tmp_path / "out")
    assert code == 1
    assert "train: no luck" in printed

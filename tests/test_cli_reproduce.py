"""`gradwalk reproduce`: the files it writes, and what it prints."""

import json
from pathlib import Path

import pytest
from helpers.command_line import run
from helpers.small_figures import use_small_figures

from gradwalk import cli
from gradwalk.cli import reproduce
from gradwalk.figures import table


@pytest.fixture
def quick(monkeypatch) -> list[tuple[str, int]]:
    """Figures small enough for a test."""
    return use_small_figures(monkeypatch)


def test_reproduce_writes_all_figures_and_their_tables(tmp_path: Path, monkeypatch) -> None:
    use_small_figures(monkeypatch, empty=True)
    printed = run("reproduce", "fig1", "fig2", "--out", str(tmp_path / "new" / "figures"), "--seed", "3")
    written = {path.name for path in (tmp_path / "new" / "figures").iterdir()}
    pictures = {f"{name}.{ending}" for name in ("fig1", "fig2") for ending in ("csv", "png", "pdf")}
    assert written == pictures | {"index.html"}
    assert table.read(tmp_path / "new" / "figures" / "fig1.csv").facts["seed"] == 3
    assert "mean log-norm after 8 layers" in printed
    assert "tanh: g with |mean| < 1" in printed


def test_redraw_uses_the_table_and_computes_nothing(tmp_path: Path, quick: list[tuple[str, int]]) -> None:
    run("reproduce", "fig1", "--out", str(tmp_path))
    before = (tmp_path / "fig1.png").read_bytes()
    (tmp_path / "fig1.png").unlink()
    run("reproduce", "fig1", "--out", str(tmp_path), "--redraw")
    assert quick == [("fig1", 0)]
    assert (tmp_path / "fig1.png").read_bytes() == before
    assert not (tmp_path / "fig2.png").exists()


def test_reproduce_prints_json(tmp_path: Path, monkeypatch) -> None:
    use_small_figures(monkeypatch, empty=True)
    record = json.loads(run("reproduce", "fig1", "--out", str(tmp_path), "--json"))
    assert record["page"] == str(tmp_path / "index.html")
    assert str(tmp_path / "fig1.csv") in record["figures"]["fig1"]["files"]
    assert record["findings"]["C6"]["verdict"] == "not run"


def test_an_interrupted_reproduction_says_that_the_same_command_resumes(capsys, monkeypatch, tmp_path) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduce, "run", interrupted)
    with pytest.raises(SystemExit) as ended:
        cli.main(["reproduce", "fig3", "--out", str(tmp_path)])
    assert ended.value.code == 130
    error = capsys.readouterr().err
    assert (
        error == f"gradwalk: interrupted; what has been trained is saved in {tmp_path}, and the same command resumes\n"
    )

"""`gradwalk reproduce` for what is trained: its specs, from end to end, and what is wrong in one line."""

import itertools
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gradwalk import cli, data, figures
from gradwalk.cli import reproduce
from gradwalk.data import Dataset
from gradwalk.figures import table, trained
from gradwalk.sweep import Spec, Store, SweepSummary

# Specs


@pytest.mark.parametrize(("name", "scale"), list(itertools.product(figures.TRAINED, trained.SCALES)))
def test_every_spec_loads_and_its_networks_can_be_built(name: str, scale: str) -> None:
    spec = Spec.load(trained.spec_text(name, scale))
    assert spec.name == f"Figure {name[3:].upper()}, {scale}"
    width, classes = (1800, 61) if name == "fig4d" else (64, 10) if scale == "smoke" else (784, 10)
    frames = np.zeros((1, width), np.float32)
    split = data.Examples(frames, np.zeros(1, np.int64))
    empty = Dataset(name, split, split, classes, "")
    for run in {run.stacks_with(): run for run in spec.runs()}.values():
        assert len(run.architecture(empty).widths) == run.depth + 1


def grid(name: str, scale: str, *keys: str) -> list[set]:
    found = Spec.load(trained.spec_text(name, scale)).runs()
    return [{getattr(run, key) for run in found} for key in keys]


@pytest.mark.parametrize("name", figures.TRAINED)
def test_the_papers_grid_is_what_the_paper_gives(name: str) -> None:
    examples, batch, epochs, decay = grid(name, "paper", "examples", "batch", "epochs", "decay")
    assert (examples, batch, epochs, decay) == ({None}, {100}, {500}, {0.995})
    params, depth, gain, activation = grid(name, "paper", "params", "depth", "gain", "activation")
    assert params == {{"fig4b": 16e6, "fig4c": 62e6}.get(name, 4e6)}
    assert grid(name, "paper", "rate_in") == grid(name, "paper", "rate_out")
    assert activation == ({"tanh", "relu"} if name == "fig3" else {"tanh"})
    given = {"fig4a": {1.05, 1.1, 1.15, 1.2}, "fig4c": {1.05}, "fig4d": {1.1, 1.15, 1.2, 1.25}}
    assert gain == given.get(name, given["fig4a"]) or name == "fig3"
    assert {"fig3": {4, 512}, "fig4a": {2, 16, 32}, "fig4b": {4, 128}, "fig4c": {1000}, "fig4d": {16, 32}}[
        name
    ] <= depth
    count = len(Spec.load(trained.spec_text(name, "paper")).runs()) / len(activation)
    assert 300 <= count <= 1000 or name == "fig4c"


@pytest.mark.parametrize("name", figures.TRAINED)
def test_the_laptops_grid_keeps_the_shape_of_the_experiment(name: str) -> None:
    examples, task, data_name, activation = grid(name, "laptop", "examples", "task", "data", "activation")
    assert examples == {10_000}
    assert (task, data_name, activation) == tuple(grid(name, "paper", "task", "data", "activation"))
    for smaller in ("params", "epochs"):
        assert max(grid(name, "laptop", smaller)[0]) < max(grid(name, "paper", smaller)[0])
    depth, gain, rate_in, rate_out = grid(name, "laptop", "depth", "gain", "rate_in", "rate_out")
    assert len(rate_in | rate_out) > 1
    if name == "fig4c":
        assert depth == {1000}
    else:
        assert len(depth) >= 3
        assert max(depth) >= 64
        assert {1.0, 1.4} <= gain if name == "fig3" else gain == grid(name, "paper", "gain")[0]


# The command line


def run(*arguments: str) -> tuple[str, str]:
    done = CliRunner().invoke(cli.app(), ["reproduce", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr


def test_a_spec_is_printed_as_it_is_and_runs_when_changed(tmp_path: Path) -> None:
    printed, _ = run("fig4a", "--print-spec")
    assert printed == trained.spec_text("fig4a", "smoke")
    changed = printed.replace("depth = [2, 4, 16]", "depth = [2, 3]").replace("epochs = 4", "epochs = 1")
    (tmp_path / "mine.toml").write_text(changed)
    run("fig4a", "--spec", str(tmp_path / "mine.toml"), "--out", str(tmp_path), "--seed", "5")
    shown = table.read(tmp_path / "fig4a.csv")
    assert set(shown["depth"]) == {2, 3}
    assert set(shown["seed"]) == {5}
    assert Store(tmp_path / "sweeps" / "fig4a-mine").counts()["done"] == len(shown["depth"])


def test_smoke_runs_from_end_to_end_and_redraws_without_a_sweep(tmp_path: Path, monkeypatch) -> None:
    printed, _ = run("fig3", "--scale", "smoke", "--out", str(tmp_path))
    assert re.search(r"tanh, D = 4: best g +1\.\d", printed)
    results = Store(tmp_path / "sweeps" / "fig3-smoke").results()
    shown = table.read(tmp_path / "fig3.csv")
    assert len(results) == len(shown["depth"]) == len(Spec.load(trained.spec_text("fig3", "smoke")).runs())
    np.testing.assert_array_equal(shown["train_mistakes"], [each.epochs[-1].train_mistakes for each in results])
    before = (tmp_path / "fig3.png").read_bytes()
    (tmp_path / "fig3.png").unlink()
    shutil.rmtree(tmp_path / "sweeps")
    monkeypatch.setitem(sys.modules, "gradwalk.sweep", None)  # an import of it fails
    again, _ = run("fig3", "--out", str(tmp_path), "--redraw")
    assert again == printed
    assert (tmp_path / "fig3.png").read_bytes() == before


def test_a_second_call_trains_nothing_again(tmp_path: Path, monkeypatch) -> None:
    small = 'data = "digits"\nexamples = 200\nepochs = 1\nparams = 2e4\ndepth = [2, 4]\ngain = 1.1'
    (tmp_path / "small.toml").write_text(small)
    arguments = ("fig4a", "--spec", str(tmp_path / "small.toml"), "--out", str(tmp_path))
    first, _ = run(*arguments)
    monkeypatch.setattr("gradwalk.sweep.engine.train", None)
    assert run(*arguments)[0] == first


@pytest.fixture
def without(monkeypatch) -> Callable[[str], None]:
    """Makes a data set one that cannot be had."""
    whole = data.load

    def hide(name: str) -> None:
        def load(asked: str, **options: object) -> Dataset:
            if asked == name:
                raise FileNotFoundError(f"data: {name} is nowhere; here is how to get it")
            return whole(asked, **options)

        monkeypatch.setattr(data, "load", load)

    return hide


def test_without_mnist_digits_are_used_and_it_is_said(tmp_path: Path, without) -> None:
    without("mnist")
    small = 'data = "mnist"\nexamples = 200\nepochs = 1\nparams = 2e4\ndepth = [2, 4]\ngain = 1.1'
    (tmp_path / "small.toml").write_text(small)
    printed, complaint = run("fig4a", "--spec", str(tmp_path / "small.toml"), "--out", str(tmp_path))
    assert complaint.startswith("gradwalk: fig4a: mnist cannot be had, digits take its place (data: mnist is nowhere")
    assert re.search(r"data +digits: 200 to train on", printed)


def test_without_timit_all_goes_on_and_figure_4d_alone_does_not(tmp_path: Path, without, monkeypatch, capsys) -> None:
    without("timit")
    monkeypatch.setattr(figures, "NAMES", ("fig4d",))
    printed, complaint = run("--out", str(tmp_path))
    assert complaint == "gradwalk: fig4d is left out: data: timit is nowhere; here is how to get it\n"
    assert printed == ""
    with pytest.raises(SystemExit) as ended:
        cli.main(["reproduce", "fig4d", "--out", str(tmp_path)])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "gradwalk: data: timit is nowhere; here is how to get it\n"


def test_a_run_that_failed_is_told(tmp_path: Path, monkeypatch) -> None:
    small = 'data = "digits"\nexamples = 200\nepochs = 1\nparams = 2e4\ndepth = [2, 4]\ngain = 1.1'
    (tmp_path / "small.toml").write_text(small)
    whole = reproduce._swept

    def swept(*arguments: object) -> SweepSummary:
        found = whole(*arguments)
        found.results[0] = replace(found.results[0], status="failed", error="no memory")
        return found

    def all_failed(found: SweepSummary) -> SweepSummary:
        return replace(found, results=[replace(each, status="failed", error="no memory") for each in found.results])

    monkeypatch.setattr(reproduce, "_swept", swept)
    printed, complaint = run("fig4a", "--spec", str(tmp_path / "small.toml"), "--out", str(tmp_path))
    assert complaint == "gradwalk: fig4a: 1 runs failed and are not drawn (no memory)\n"
    assert re.search(r"runs +2: 1 done, 1 failed", printed)
    monkeypatch.setattr(reproduce, "_swept", lambda *arguments: all_failed(whole(*arguments)))
    with pytest.raises(ValueError, match=r"^reproduce: all runs of fig4a failed \(no memory\)$"):
        run("fig4a", "--spec", str(tmp_path / "small.toml"), "--out", str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("fig3 --scale big", 'reproduce: scale must be "smoke" or '),
        ("fig1 --print-spec", "reproduce: fig1 have no spec: they are simulated"),
        ("fig1 --spec a.toml", "reproduce: --spec is for one of fig3, fig4a, fig4b, fig4c, fig4d, initialisers, got"),
        ("fig3 fig4a --spec a.toml", "got fig3 fig4a"),
        ("fig3 --spec nowhere.toml", "nowhere.toml"),
    ],
)
def test_bad_input_to_reproduce_is_one_line(capsys, tmp_path: Path, monkeypatch, arguments: str, sentence: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        cli.main(["reproduce", *arguments.split()])
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1

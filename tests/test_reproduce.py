"""`gradwalk.reproduce` and the command: specs, tables, pictures and the page, from end to end."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure as Picture
from typer.testing import CliRunner

import gradwalk
from gradwalk import cli, data, figures, reproduction
from gradwalk.data import Dataset, Datasets
from gradwalk.figures import FIGURES, SimulatedFigure, Table, TrainedFigure, canvas, fig4a
from gradwalk.registry import Registry
from gradwalk.report import CLAIMS, Claim, Finding, page
from gradwalk.report.finding import HOLDS, Tables
from gradwalk.reproduction import Reproduction, Watcher, reproduce, spec_texts
from gradwalk.sweep import Spec, Store, SweepSummary

TRAINED = [figure.name for figure in FIGURES if figure.in_paper and isinstance(figure, TrainedFigure)]
TINY = 'data = "{}"\nexamples = {}\nepochs = 1\nparams = 2e4\ndepth = [2, 4]\ngain = 1.1\n'


class Messages(Watcher):
    """Collects what a reproduction reports."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def noted(self, message: str) -> None:
        self.messages.append(message)


class Without(Datasets):
    """Data sets of which one cannot be found."""

    def __init__(self, missing: str) -> None:
        super().__init__()
        self.missing = missing

    def load(self, name: str, *settings: object) -> Dataset:
        if name == self.missing:
            raise FileNotFoundError(f"data: {name} is nowhere; here is how to get it")
        return super().load(name, *settings)


# Trained figures


def blank(given: Table) -> Picture:
    """Draw something quickly."""
    return canvas(1, 1, (1, 1))[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Iterator[Path]:
    """A folder with tiny specs, and a figure "shallow" that uses one of them and is drawn quickly."""
    path = tmp_path_factory.mktemp("reproduce")
    (path / "tiny.toml").write_text(TINY.format("digits", 200))
    (path / "mnist.toml").write_text(TINY.format("mnist", 5000))
    (path / "shallow-quick.toml").write_text(TINY.format("digits", 200))
    record = {"title": "Shallow", "caption": "Two depths.", "draw": blank, "summary": fig4a.summary, "specs": path}
    FIGURES.register(TrainedFigure(name="shallow", **record))
    yield path
    FIGURES.remove("shallow")


@pytest.fixture(scope="module")
def tiny(folder: Path) -> Reproduction:
    """Figure 4A from a tiny spec."""
    return reproduce("fig4a", spec=folder / "tiny.toml", out=folder / "tiny", threads=1)


def test_reproduce_returns_tables_files_findings_and_the_page(tiny: Reproduction) -> None:
    figure = tiny.figures["fig4a"]
    assert set(tiny.figures) == {"fig4a"}
    assert [path.name for path in figure.files] == ["fig4a.csv", "fig4a.png", "fig4a.pdf"]
    assert all(path.stat().st_size > 500 for path in figure.files)
    assert figure.table["depth"].tolist() == [2, 4]
    assert figure.summary == fig4a.summary(figure.table)
    assert tiny.findings == {claim.name: claim.finding({"fig4a": figure.table}) for claim in CLAIMS if claim.in_paper}
    assert tiny.page == tiny.out / "index.html"
    assert tiny.left_out == {}


def test_a_trained_table_records_how_it_was_made(tiny: Reproduction) -> None:
    made = tiny.figures["fig4a"].table.made
    assert made["scale"] == "tiny"
    assert float(made["seconds"]) > 0
    assert "torch" in made["versions"]


def test_a_second_call_trains_nothing_and_writes_the_same(tiny: Reproduction, folder: Path, monkeypatch) -> None:
    before = {path: path.read_bytes() for path in tiny.figures["fig4a"].files}
    monkeypatch.setattr("gradwalk.sweep.engine.train", None)
    again = reproduce("fig4a", spec=folder / "tiny.toml", out=tiny.out)
    assert again.figures["fig4a"].summary == tiny.figures["fig4a"].summary
    assert {path: path.read_bytes() for path in again.figures["fig4a"].files} == before


def test_a_figure_of_a_larger_scale_is_not_replaced_unless_forced(folder, tiny, tmp_path, monkeypatch) -> None:
    path, table = tmp_path / "shallow.csv", tiny.figures["fig4a"].table
    figures.table.write(replace(table, made=table.made | {"scale": "laptop"}), path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"shallow.csv is of scale 'laptop' and would be replaced by 'quick'"):
        reproduce("shallow", scale="quick", out=tmp_path, threads=1)
    forced = reproduce("shallow", scale="quick", out=tmp_path, threads=1, force=True)
    assert forced.figures["shallow"].table.made["scale"] == "quick"
    path.write_bytes(before)
    monkeypatch.setattr(reproduction, "_chosen", lambda _: ([FIGURES["shallow"]], True))
    kept = reproduce("all", scale="quick", out=tmp_path, watcher=(watcher := Messages()))
    assert watcher.messages == ["shallow is kept at scale laptop; --force replaces it by quick"]
    assert kept.figures["shallow"].table.made["scale"] == "laptop"
    assert path.read_bytes() == before


def test_data_are_read_from_the_folders_that_are_named(toys, tmp_path: Path, monkeypatch) -> None:
    fetched = []
    monkeypatch.setattr(reproduction, "fetch", lambda name, *, folder: fetched.append((name, folder)))
    run("first", "--data", f"timit={tmp_path}", "--out", str(tmp_path))
    assert fetched == [("timit", tmp_path)]


def test_data_are_loaded_once(folder: Path, tiny: Reproduction, monkeypatch) -> None:
    loaded = []
    whole = data.DATASETS["digits"].load
    counting = replace(data.DATASETS["digits"], load=lambda **given: loaded.append(given) or whole(**given))
    monkeypatch.setattr("gradwalk.data.catalogue.DATASETS", type(data.DATASETS)("data set", [counting]))
    reproduce("fig4a", spec=folder / "tiny.toml", out=tiny.out)
    assert len(loaded) == 1


def test_smoke_runs_from_end_to_end_and_redraws_without_a_sweep(tmp_path: Path, monkeypatch) -> None:
    first = reproduce("fig4b", scale="smoke", out=tmp_path)
    with Store(tmp_path / "sweeps" / "fig4b-smoke") as store:
        results = store.results()
    shown = first.figures["fig4b"].table
    assert len(results) == len(shown.frame) == len(Spec.load(FIGURES["fig4b"].spec_text("smoke")).runs())
    np.testing.assert_array_equal(shown["train_loss"], [result.epochs[-1].train_loss for result in results])
    csv, before = ((tmp_path / f"fig4b.{ending}").read_bytes() for ending in ("csv", "png"))
    (tmp_path / "fig4b.png").unlink()
    shutil.rmtree(tmp_path / "sweeps")
    monkeypatch.setitem(sys.modules, "gradwalk.sweep", None)  # an import of it fails
    again = reproduce("fig4b", out=tmp_path, redraw=True)
    assert again.figures["fig4b"].summary == first.figures["fig4b"].summary
    assert (tmp_path / "fig4b.png").read_bytes() == before
    assert (tmp_path / "fig4b.csv").read_bytes() == csv


def test_a_seed_overrides_that_of_the_spec(folder: Path, tmp_path: Path) -> None:
    result = reproduce("shallow", scale="quick", out=tmp_path, seed=5)
    assert set(result.figures["shallow"].table["seed"]) == {5}


def test_without_mnist_all_digits_are_used_and_the_page_says_so(folder: Path, tmp_path: Path) -> None:
    watcher = Messages()
    datasets = Without("mnist")
    result = reproduce("shallow", spec=folder / "mnist.toml", out=tmp_path, datasets=datasets, watcher=watcher)
    (message,) = watcher.messages
    assert message.startswith("shallow: mnist is not available, digits is used instead (data: mnist is nowhere")
    shown = result.figures["shallow"].table
    assert set(shown["train_examples"]) == {len(data.load("digits").train)}
    assert shown.made["note"] in result.page.read_text("utf-8")


def test_failed_runs_are_reported(folder: Path, tmp_path: Path, monkeypatch) -> None:
    from gradwalk import sweep

    whole, failures = sweep.run_sweep, 1

    def failing(*arguments: object, **options: object) -> SweepSummary:
        summary = whole(*arguments, **options)
        failed = [replace(result, status="failed", error="no memory") for result in summary.results]
        return replace(summary, results=[*failed[:failures], *summary.results[failures:]])

    monkeypatch.setattr(sweep, "run_sweep", failing)
    watcher = Messages()
    result = reproduce("shallow", scale="quick", out=tmp_path, watcher=watcher)
    assert watcher.messages == ["shallow: 1 runs failed and are not drawn (no memory)"]
    assert dict(result.figures["shallow"].summary)["runs"] == "2: 1 done, 1 failed"
    failures = 2
    with pytest.raises(ValueError, match=r"^reproduce: all runs of shallow failed \(no memory\)$"):
        reproduce("shallow", scale="quick", out=tmp_path)


# Simulated figures


@pytest.fixture
def toys(monkeypatch) -> list[tuple[str, int]]:
    """Replace the figures by Figure 4D and two that are drawn quickly, and list their computations."""
    computed = []

    def toy(name: str) -> SimulatedFigure:
        def compute(seed: int) -> Table:
            computed.append((name, seed))
            return Table.of({"x": [0.0, 1.0]}, {"seed": seed})

        return SimulatedFigure(
            name=name,
            title=name,
            caption="A toy.",
            in_paper=True,
            compute=compute,
            draw=blank,
            summary=lambda given: [("points", f"{len(given.frame)}")],
        )

    registry = Registry("figure", [toy("first"), toy("second"), FIGURES["fig4d"]])
    monkeypatch.setattr(figures, "FIGURES", registry)
    monkeypatch.setattr(page, "CLAIMS", Registry("claim"))
    monkeypatch.setattr(page, "findings", lambda tables: {})
    monkeypatch.setattr(reproduction, "findings", lambda tables: {})
    return computed


def test_a_simulated_figure_is_reused_for_the_same_seed_and_version(toys, tmp_path: Path, monkeypatch) -> None:
    made = reproduce("first", out=tmp_path).figures["first"].table.made
    before = (tmp_path / "first.csv").read_bytes()
    assert set(made) == {"date", "seconds", "machine", "versions"}
    assert f"gradwalk {gradwalk.__version__}" in made["versions"]
    watcher = Messages()
    reproduce("first", out=tmp_path, watcher=watcher)
    assert toys == [("first", 0)]
    assert watcher.messages[0].startswith("first is drawn from")
    assert (tmp_path / "first.csv").read_bytes() == before
    reproduce("first", out=tmp_path, seed=3)
    assert toys == [("first", 0), ("first", 3)]
    monkeypatch.setattr(gradwalk, "__version__", "99.0")
    reproduce("first", out=tmp_path, seed=3)
    assert toys == [("first", 0), ("first", 3), ("first", 3)]


def test_a_figure_that_is_run_later_joins_the_page(toys, tmp_path: Path) -> None:
    assert 'src="second.png"' not in reproduce("first", out=tmp_path).page.read_text("utf-8")
    html = reproduce("second", out=tmp_path).page.read_text("utf-8")
    assert 'src="first.png"' in html
    assert 'src="second.png"' in html


def test_without_timit_figure_4d_is_left_out_of_all_and_fails_alone(toys, tmp_path: Path) -> None:
    sentence = "data: timit is nowhere; here is how to get it"
    with pytest.raises(FileNotFoundError, match=sentence):
        reproduce("fig4d", out=tmp_path, datasets=Without("timit"))
    watcher = Messages()
    result = reproduce("all", out=tmp_path, datasets=Without("timit"), watcher=watcher)
    assert set(result.figures) == {"first", "second"}
    assert result.left_out == {"fig4d": sentence}
    assert watcher.messages == [f"fig4d is left out: {sentence}"]
    assert f"Not run: {sentence}. It needs the TIMIT corpus" in result.page.read_text("utf-8")


def test_the_command_reports_which_of_several_figures_it_computes(toys, tmp_path: Path) -> None:
    printed, messages = run("first", "second", "--out", str(tmp_path))
    assert messages == "gradwalk: first, 1 of 2\ngradwalk: second, 2 of 2\n"
    assert printed.count("points   2") == 2


# From outside the package


def test_a_figure_and_a_claim_from_outside_are_computed_drawn_judged_and_shown(tmp_path: Path) -> None:
    def compute(seed: int) -> Table:
        return Table.of({"turn": [0, 1, 2], "radius": [1.0, 1.5, 2.0 + seed]}, {"seed": seed})

    def draw(given: Table) -> Picture:
        picture, panels = canvas(1, 1, (3, 2))
        panels[0, 0].plot(given["turn"], given["radius"])
        return picture

    def judge(tables: Tables) -> Finding:
        return Finding(HOLDS, f"{tables['spiral']['radius'][-1]:g} at the end.")

    FIGURES.register(SimulatedFigure(name="spiral", title="A spiral", caption="It widens.", compute=compute, draw=draw))
    CLAIMS.register(Claim("X1", "The spiral widens.", "Holds: always.", figures=("spiral",), judge=judge))
    result = reproduce("spiral", out=tmp_path, seed=4)
    html = result.page.read_text("utf-8")
    assert result.figures["spiral"].table["radius"].tolist() == [1.0, 1.5, 6.0]
    assert result.findings["X1"] == Finding(HOLDS, "6 at the end.")
    assert 'src="spiral.png"' in html
    assert (tmp_path / "spiral.png").stat().st_size > 1000
    assert re.search(r'id="X1".*?<span class="verdict holds">', html, re.DOTALL)
    assert "spiral" not in reproduce([], out=tmp_path / "empty", redraw=True).left_out  # it is not the paper's


def test_a_trained_figure_from_outside_brings_its_own_spec(folder: Path, tmp_path: Path) -> None:
    assert FIGURES["shallow"].scales == ("quick",)
    result = reproduce("shallow", scale="quick", out=tmp_path, threads=1)
    assert result.figures["shallow"].table["depth"].tolist() == [2, 4]
    assert "Here: digits, 200 examples, 1 epoch." in result.page.read_text("utf-8")
    with pytest.raises(ValueError, match="shallow has no spec at scale 'laptop'; its scales are quick"):
        reproduce("shallow", scale="laptop", out=tmp_path)


def test_reproduce_is_found_in_the_package_and_loaded_when_used() -> None:
    code = """
import sys, gradwalk
assert "gradwalk.reproduction" not in sys.modules
assert not {"pandas", "torch", "matplotlib", "plotly"} & set(sys.modules)
from gradwalk import reproduce
assert reproduce is gradwalk.reproduction.reproduce
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with pytest.raises(AttributeError, match="module 'gradwalk' has no attribute 'reproduced'"):
        _ = gradwalk.reproduced


# The command line


def run(*arguments: str) -> tuple[str, str]:
    done = CliRunner().invoke(cli.app(), ["reproduce", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr


def test_the_specs_of_the_package_are_printed_as_they_are() -> None:
    assert run("fig4a", "--print-spec")[0] == FIGURES["fig4a"].spec_text("smoke")
    assert spec_texts("all", scale="paper") == [FIGURES[name].spec_text("paper") for name in TRAINED]


def test_the_command_prints_the_summary_and_at_last_the_page(tiny: Reproduction, folder: Path) -> None:
    printed, messages = run("fig4a", "--spec", str(folder / "tiny.toml"), "--out", str(tiny.out))
    assert re.search(r"D = 4: best single run +\d", printed)
    assert f"written: {tiny.out / 'fig4a.csv'}, " in printed
    assert printed.splitlines()[-1] == str(tiny.page)
    assert messages == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("fig3 --scale big", '--scale must be "smoke" or '),
        ("fig33", "there is no figure 'fig33'; did you mean 'fig3'?"),
        ("fig1 --print-spec", "only trained figures have a spec, got fig1"),
        ("fig1 --spec a.toml", "--spec is for one trained figure, got fig1"),
        ("fig3 fig4a --spec a.toml", "--spec is for one trained figure, got fig3 fig4a"),
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

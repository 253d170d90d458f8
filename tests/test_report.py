"""The page tells the verdicts, the runs behind them, and nothing it was not given."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from helpers.report_tables import MADE, by_depth, by_epoch, by_gain, gains, trained, walks
from typer.testing import CliRunner

import gradwalk
from gradwalk import cli, data, figures
from gradwalk.figures import fig1, table
from gradwalk.figures.table import Table
from gradwalk.report import errata, extent, page, plots, runs
from gradwalk.report.claims import CLAIMS
from gradwalk.report.finding import VERDICTS, Finding

MNIST_ORDER = {2: 0.001, 4: 0.004, 16: 0.002, 32: 0.002, 128: 0.005}
REVERSED = {2: 0.005, 4: 0.001, 16: 0.003, 32: 0.004, 128: 0.002}
ENCODER = {4: 0.05, 16: 0.06, 128: 0.1}
PHONES = {4: 0.02, 16: 0.01, 32: 0.0105, 64: 0.03}
LITTLE = {"data": "digits", "examples": 1442, "epochs": 4}


# What was run


def test_what_was_run_names_scale_data_seeds_versions_and_time() -> None:
    said = dict(runs.what_was_run("fig4a", by_depth("fig4a", MNIST_ORDER | {128: None}, examples=10_000, epochs=8)))
    assert said["scale"] == "paper: 10,000 of 60,000 examples, 8 of 500 epochs"
    assert said["data"] == "MNIST: 10,000 of 60,000 to train on, 10,000 held out"
    assert said["runs"] == "40: 32 done, 8 diverged"
    assert said["seeds"] == "0"
    assert said["date"] == MADE["date"]
    assert said["time"] == "43 s"
    assert said["versions"] == MADE["versions"]
    first = dict(runs.what_was_run("fig1", walks()))
    assert (first["scale"], first["seed"]) == ("the paper's own", "0")


def test_runs_of_a_table_with_a_row_an_epoch_are_counted_once() -> None:
    assert dict(runs.what_was_run("fig4c", by_epoch(50, epochs=9)))["runs"] == "4: 4 done"


def test_data_that_took_anothers_place_are_told() -> None:
    note = "mnist cannot be had, digits take its place"
    said = dict(runs.what_was_run("fig3", by_gain(**LITTLE, made=MADE | {"note": note})))
    assert said["data"] == f"digits: 1,442 to train on, 10,000 held out. {note}"


def test_the_papers_own_scale_is_not_called_reduced() -> None:
    assert extent.reduced("fig3", by_gain()) == ""
    assert extent.reduced("fig1", walks()) == ""


# The page


class Reader(HTMLParser):
    """Collects what a test asks of the page: elements by id, links, what is loaded, rows of tables by their class."""

    VOID = frozenset({"meta", "link", "img", "br", "input", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids, self.links, self.loaded, self.rows, self.open, self.words = [], [], [], {}, [], {}
        self.feed(text)

    def handle_starttag(self, tag, attributes) -> None:
        given = dict(attributes)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given["href"]] if tag == "a" else []
        self.loaded += [given[key] for key in ("src", "href") if key in given and tag not in ("a",)]
        table = next((each.get("class") for name, each in reversed(self.open) if name == "table"), None)
        if tag == "tr" and any(name == "tbody" for name, _ in self.open):
            self.rows.setdefault(table, []).append([])
        if tag not in self.VOID:
            self.open.append((tag, given))

    def handle_endtag(self, tag) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, text) -> None:
        table = next((each.get("class") for name, each in reversed(self.open) if name == "table"), None)
        if {"tbody", "tr"} <= {name for name, _ in self.open}:
            self.rows[table][-1].append(text.replace("\xa0", " ").strip())


@pytest.fixture(scope="module")
def tables() -> dict[str, Table]:
    return {
        "fig1": walks(),
        "fig2": gains(),
        "fig3": by_gain(1.25, slope=0.05, least=0.0),
        "fig4a": by_depth("fig4a", MNIST_ORDER | {128: None}),
        "fig4b": by_depth("fig4b", ENCODER),
        "fig4c": by_epoch(50, epochs=12, weights=["gaussian", "orthogonal"]),
        "fig4d": by_depth("fig4d", PHONES, data="TIMIT"),
    }


@pytest.fixture(scope="module")
def written(tables: dict[str, Table], tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    for name, each in tables.items():
        table.write(each, folder / f"{name}.csv")
        (folder / f"{name}.png").write_bytes(b"")
    return page.write_page(folder)


def test_the_page_is_one_file_that_loads_nothing(written: Path) -> None:
    read = Reader(written.read_text("utf-8"))
    assert written.name == "index.html"
    assert [each for each in read.loaded if not each.startswith("data:")] == [f"{name}.png" for name in figures.NAMES]
    for link in read.links:
        if link.startswith("#"):
            assert link[1:] in read.ids
        else:
            assert (written.parent / link).exists()
    assert {f"{name}.{ending}" for name in figures.NAMES for ending in ("csv", "png")} <= set(read.links)
    assert len(read.ids) == len(set(read.ids))


def test_the_claims_table_has_every_claim_with_its_verdict(written: Path, tables: dict[str, Table]) -> None:
    rows = [" ".join(words) for words in Reader(written.read_text("utf-8")).rows["claims"]]
    assert len(rows) == 12
    for claim, row in zip(CLAIMS, rows, strict=True):
        finding = claim.judge(tables)
        assert claim.words in row
        assert finding.came_out in row
        assert finding.verdict in row
        assert all(id in row for id in claim.errata)


def test_verdicts_are_computed_and_not_typed_in(tables: dict[str, Table], tmp_path: Path, monkeypatch) -> None:
    for verdict in VERDICTS:
        changed = [(claim, Finding(verdict, "so it came out")) for claim in CLAIMS]
        monkeypatch.setattr(page, "findings", lambda _, changed=changed: changed)
        html = page.page({}, tmp_path)
        assert f"{verdict}: 12" in html
        assert html.count(f'<span class="verdict {verdict.replace(" ", "-")}">{verdict}</span>') == 12


def test_the_errata_table_has_all_nine(written: Path) -> None:
    read = Reader(written.read_text("utf-8"))
    assert len(read.rows["errata"]) == 9
    assert len(read.rows["distances"]) == len(errata.FORMULAS)


def test_a_figure_that_was_not_run_says_how_to_run_it(tmp_path: Path) -> None:
    table.write(walks(), tmp_path / "fig1.csv")
    html = page.write_page(tmp_path).read_text("utf-8")
    assert html.count("Not run. To run it:") == 6
    assert "gradwalk reproduce fig4c --out" in html
    assert 'id="fig1-3"' in html


def test_words_of_the_data_cannot_break_the_page(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    html = page.page({"fig3": by_gain(data=evil, made=MADE | {"versions": evil})}, tmp_path)
    assert evil not in html


def test_a_page_is_replaced_whole_or_not_at_all(written: Path, monkeypatch) -> None:
    before = written.read_bytes()
    monkeypatch.setattr(page, "errata", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        page.write_page(written.parent)
    assert written.read_bytes() == before


# Pictures


def drawn(name: str, given: Table) -> list[dict]:
    return [json.loads(each.json) for each in plots.panels(name, given)]


def test_every_figure_has_its_panels(tables: dict[str, Table]) -> None:
    count = {name: len(plots.panels(name, tables[name])) for name in figures.NAMES}
    assert count == {"fig1": 3, "fig2": 6, "fig3": 4, "fig4a": 1, "fig4b": 1, "fig4c": 1, "fig4d": 1}


def test_a_point_of_figure_3_tells_its_run(tables: dict[str, Table]) -> None:
    upper = drawn("fig3", tables["fig3"])[0]
    said = [text for trace in upper["data"] for text in trace["text"]]
    assert len(said) == 18
    assert (
        "tanh, g = 0.9, D = 4, N = 100<br>λ in 0.01, λ out 0.01, gaussian weights, seed 0"
        "<br>training error 1.75 % (1,050 mistakes)<br>held out 1.75 % (175 mistakes)"
    ) in said


def test_a_point_of_figure_4_tells_the_runs_it_is_the_mean_of(tables: dict[str, Table]) -> None:
    (panel,) = drawn("fig4a", tables["fig4a"])
    said = [text for trace in panel["data"] for text in trace.get("text", [])]
    assert (
        "D = 2, N = 100, λ in 0.01, λ out 0.1<br>mean 0.10 % (60 mistakes)"
        "<br>g = 1.05: 0.10 % (60 mistakes)<br>g = 1.2: 0.10 % (60 mistakes)"
    ) in said
    assert any("D = 128" in text and "g = 1.05: diverged" in text for text in said)


def test_what_diverged_and_what_made_no_mistake_has_a_marked_place(tables: dict[str, Table]) -> None:
    (panel,) = drawn("fig4a", tables["fig4a"])
    assert {note["text"] for note in panel["layout"]["annotations"]} == {"diverged", "constant answer"}
    low, high = panel["layout"]["yaxis"]["range"]
    assert low < np.log10(0.001) < np.log10(2.0) < high
    notes = {note["text"] for note in drawn("fig3", tables["fig3"])[0]["layout"]["annotations"]}
    assert notes == {"0 mistakes"}


def test_a_mean_of_which_a_part_diverged_is_hollow() -> None:
    given = trained("fig4a", lambda gain, **_: None if gain == 1.2 else 0.1, gain=[1.05, 1.2], depth=[2, 4])
    whole = trained("fig4a", lambda **_: 0.1, gain=[1.05, 1.2], depth=[2, 4])
    assert [drawn("fig4a", each)[0]["data"][0]["marker"]["symbol"] for each in (given, whole)] == [
        ["circle-open"] * 2,
        ["circle"] * 2,
    ]
    assert "hollow: some g diverged" in plots.panels("fig4a", given)[0].title
    assert "hollow" not in plots.panels("fig4a", whole)[0].title


def test_the_lower_panels_of_figure_3_show_the_best_run_of_each_g() -> None:
    given = trained(
        "fig3", lambda rate_in, gain, **_: None if gain == 1.6 else rate_in, gain=[1.2, 1.6], rate_in=[0.3, 0.1]
    )
    _, lower = drawn("fig3", given)
    (trace,) = lower["data"]
    assert "training error 10.00 % (6,000 mistakes)" in trace["text"][0]
    assert "diverged" in trace["text"][1]


def test_colours_are_variables_that_the_page_has_in_both_dresses(tables: dict[str, Table]) -> None:
    style = page._text("page.css")
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    used = {
        name
        for figure in figures.NAMES
        for panel in plots.panels(figure, tables[figure])
        for name in re.findall(r"var\((--[\w-]+)\)", panel.json)
    }
    assert {"--ink", "--blue", "--shade-0", "--shade-8"} <= used
    for name in used | {f"--shade-{number}" for number in range(9)}:
        assert f"{name}:" in light
        assert f"{name}:" in dark.split("\n}\n")[0]


# The command line


def reproduce(*arguments: str) -> tuple[list[str], str]:
    done = CliRunner().invoke(cli.app(), ["reproduce", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines(), done.stderr


@pytest.fixture
def quick(monkeypatch) -> list[int]:
    """Figure 1 small enough for a test; the list has the seeds it was computed with."""
    whole, computed = fig1.compute, []

    def compute(seed: int) -> Table:
        computed.append(seed)
        return whole(seed, width=10, depth=8, walks=20, shown=3)

    monkeypatch.setattr(fig1, "compute", compute)
    return computed


def test_reproduce_writes_the_page_and_its_path_is_the_last_line(quick, tmp_path: Path) -> None:
    printed, _ = reproduce("fig1", "--out", str(tmp_path))
    assert printed[-1] == str(tmp_path / "index.html")
    made = table.read(tmp_path / "fig1.csv").made
    assert set(made) == {"date", "seconds", "machine", "versions"}
    assert f"gradwalk {gradwalk.__version__}" in made["versions"]


def test_a_simulated_figure_is_reused_for_the_same_seed_and_version(quick, tmp_path: Path, monkeypatch) -> None:
    first, _ = reproduce("fig1", "--out", str(tmp_path))
    before = (tmp_path / "fig1.csv").read_bytes()
    again, said = reproduce("fig1", "--out", str(tmp_path))
    assert (again, quick) == (first, [0])
    assert "fig1 is drawn from" in said
    assert (tmp_path / "fig1.csv").read_bytes() == before
    reproduce("fig1", "--out", str(tmp_path), "--seed", "3")
    assert quick == [0, 3]
    monkeypatch.setattr(gradwalk, "__version__", "99.0")
    reproduce("fig1", "--out", str(tmp_path), "--seed", "3")
    assert quick == [0, 3, 3]


def test_a_figure_that_is_run_later_joins_the_page(quick, tmp_path: Path) -> None:
    table.write(by_gain(), tmp_path / "fig3.csv")
    reproduce("fig1", "--out", str(tmp_path))
    html = (tmp_path / "index.html").read_text("utf-8")
    assert 'id="fig3-4"' in html
    assert 'id="fig1-3"' in html


SMALL = 'data = "{}"\nexamples = {}\nepochs = 1\nparams = 2e4\ndepth = [2, 4]\ngain = 1.1'


def test_a_trained_table_tells_how_it_was_made_and_says_the_same_when_drawn_again(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text(SMALL.format("digits", 200))
    arguments = ("fig4a", "--spec", str(tmp_path / "small.toml"), "--out", str(tmp_path))
    reproduce(*arguments)
    before = (tmp_path / "fig4a.csv").read_bytes()
    made = table.read(tmp_path / "fig4a.csv").made
    assert made["scale"] == "small"
    assert float(made["seconds"]) > 0
    assert "torch" in made["versions"]
    reproduce(*arguments)
    assert (tmp_path / "fig4a.csv").read_bytes() == before


def test_where_mnist_cannot_be_had_all_digits_stand_in_and_the_page_says_so(tmp_path: Path, monkeypatch) -> None:
    whole = data.load

    def load(name: str, **options: object) -> data.Dataset:
        if name == "mnist":
            raise FileNotFoundError("data: mnist is nowhere")
        return whole(name, **options)

    monkeypatch.setattr(data, "load", load)
    (tmp_path / "small.toml").write_text(SMALL.format("mnist", 5000))
    reproduce("fig4a", "--spec", str(tmp_path / "small.toml"), "--out", str(tmp_path))
    shown = table.read(tmp_path / "fig4a.csv")
    assert set(shown["train_examples"]) == {len(whole("digits").train)}
    assert "mnist cannot be had, digits take its place" in (tmp_path / "index.html").read_text("utf-8")


def test_several_figures_tell_which_one_is_at_work(quick, tmp_path: Path) -> None:
    table.write(gains(), tmp_path / "fig2.csv")
    reproduce("fig1", "--out", str(tmp_path))
    _, said = reproduce("fig1", "fig2", "--out", str(tmp_path), "--redraw")
    assert said == "gradwalk: fig1, 1 of 2\ngradwalk: fig2, 2 of 2\n"

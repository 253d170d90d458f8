"""The verdicts come from the numbers, and the page tells them, the runs behind them, and nothing it was not given."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from report_tables import MADE, by_depth, by_epoch, by_gain, gains, trained, walks
from typer.testing import CliRunner

import gradwalk
from gradwalk import cli, data, figures
from gradwalk.figures import fig1, table
from gradwalk.figures.table import Table
from gradwalk.report import errata, extent, page, plots, runs
from gradwalk.report.claims import CLAIMS
from gradwalk.report.finding import FAILS, HOLDS, IN_PART, NOT_RUN, VERDICTS, Finding

JUDGES = {claim.id: claim.judge for claim in CLAIMS}

MNIST_ORDER = {2: 0.001, 4: 0.004, 16: 0.002, 32: 0.002, 128: 0.005}
REVERSED = {2: 0.005, 4: 0.001, 16: 0.003, 32: 0.004, 128: 0.002}
ENCODER = {4: 0.05, 16: 0.06, 128: 0.1}
PHONES = {4: 0.02, 16: 0.01, 32: 0.0105, 64: 0.03}
LITTLE = {"data": "digits", "examples": 1442, "epochs": 4}

# Claim, tables of which it holds, and what it comes to when these numbers take their place.
CASES = [
    ("C1", {"fig1": walks(end=0.03)}, {HOLDS: {"fig1": walks(end=-0.09)}, FAILS: {"fig1": walks(end=0.5)}}),
    ("C1", {"fig1": walks()}, {IN_PART: {"fig1": walks(end=0.14)}}),
    ("C2", {"fig1": walks()}, {FAILS: {"fig1": walks(slope=4.0, power=-0.5, bend=2.0)}}),
    ("C2", {"fig1": walks(slope=1.05)}, {IN_PART: {"fig1": walks(slope=1.15)}}),
    ("C2", {"fig1": walks(power=-0.95)}, {IN_PART: {"fig1": walks(power=-0.8)}}),
    ("C2", {"fig1": walks(bend=1.01)}, {IN_PART: {"fig1": walks(bend=1.3)}}),
    ("C3", {"fig2": gains(off=0.002)}, {IN_PART: {"fig2": gains(off=0.0045)}, FAILS: {"fig2": gains(off=0.01)}}),
    ("C4", {"fig2": gains(tanh=lambda width: 1.1 + 1 / width)}, {FAILS: {"fig2": gains(tanh=lambda width: 1.35)}}),
    ("C4", {"fig2": gains()}, {IN_PART: {"fig2": gains(tanh=lambda width: 1.08 + 5 / width)}}),
    ("C4", {"fig2": gains()}, {FAILS: {"fig2": gains(tanh=lambda width: 1.004)}}),
    ("C4", {"fig2": gains()}, {FAILS: {"fig2": gains(relu=1.15)}}),
    ("C5", {"fig2": gains(wide=(1, 1, 2))}, {IN_PART: {"fig2": gains(wide=(1, 3, 2))}}),
    ("C5", {"fig2": gains()}, {FAILS: {"fig2": gains(wide=(3, 2, 1))}}),
    ("C6", {"fig3": by_gain(1.1, 1.4)}, {IN_PART: {"fig3": by_gain(1.2, 1.2)}, FAILS: {"fig3": by_gain(1.0, 1.8)}}),
    ("C6", {"fig3": by_gain(1.4, 1.55)}, {IN_PART: {"fig3": by_gain(1.6, 1.5)}}),
    ("C7", {"fig4a": by_depth("fig4a", MNIST_ORDER)}, {FAILS: {"fig4a": by_depth("fig4a", REVERSED)}}),
    (
        "C7",
        {"fig4a": by_depth("fig4a", MNIST_ORDER)},
        {IN_PART: {"fig4a": by_depth("fig4a", MNIST_ORDER | {2: 0.003})}},
    ),
    (
        "C7",
        {"fig4a": by_depth("fig4a", MNIST_ORDER | {128: None})},
        {IN_PART: {"fig4a": by_depth("fig4a", MNIST_ORDER | {32: None})}},
    ),
    ("C8", {"fig4b": by_depth("fig4b", ENCODER)}, {IN_PART: {"fig4b": by_depth("fig4b", ENCODER | {128: 0.2})}}),
    (
        "C8",
        {"fig4b": by_depth("fig4b", ENCODER)},
        {FAILS: {"fig4b": by_depth("fig4b", {4: 0.05, 16: 0.04, 128: 0.2})}},
    ),
    ("C9", {"fig4c": by_epoch(50)}, {IN_PART: {"fig4c": by_epoch(120)}, FAILS: {"fig4c": by_epoch(400)}}),
    ("C9", {"fig4c": by_epoch(75, epochs=20)}, {NOT_RUN: {"fig4c": by_epoch(400, epochs=20)}}),
    ("C9", {"fig4c": by_epoch(20)}, {NOT_RUN: {"fig4c": by_epoch(20, examples=10_000)}}),
    ("C9", {"fig4c": by_epoch(20)}, {NOT_RUN: {"fig4c": by_epoch(20, width=[50])}}),
    ("C9", {"fig4c": by_epoch(20)}, {NOT_RUN: {"fig4c": by_epoch(20, depth=[500])}}),
    ("C9", {"fig4c": by_epoch(20)}, {FAILS: {"fig4c": by_epoch(20, weights=["orthogonal"])}}),
    (
        "C10",
        {"fig4d": by_depth("fig4d", PHONES, data="TIMIT")},
        {
            HOLDS: {"fig4d": by_depth("fig4d", PHONES | {32: 0.0095}, data="TIMIT")},
            IN_PART: {"fig4d": by_depth("fig4d", PHONES | {32: 0.02}, data="TIMIT")},
            FAILS: {"fig4d": by_depth("fig4d", PHONES | {32: 0.02, 4: 0.005}, data="TIMIT")},
            NOT_RUN: {"fig4d": by_depth("fig4d", PHONES, data="TIMIT sample")},
        },
    ),
    (
        "C11",
        {"fig4a": by_depth("fig4a", {32: 0.01}), "fig4c": by_epoch(5000)},
        {
            IN_PART: {"fig4a": by_depth("fig4a", {32: 0.01}), "fig4c": by_epoch(5000, schedule=1.5)},
            FAILS: {"fig4a": by_depth("fig4a", {32: 0.01}, schedule=1.5), "fig4d": by_depth("fig4d", {32: 0.1}, 0.5)},
            NOT_RUN: {"fig4a": by_depth("fig4a", {16: 0.01})},
        },
    ),
    # where equal rates are good enough, or no rates trained the deepest nets at all
    ("C11", {"fig4a": by_depth("fig4a", {64: 0.003})}, {FAILS: {"fig4a": by_depth("fig4a", {64: 0.0001})}}),
    ("C11", {"fig4b": by_depth("fig4b", {64: 0.1})}, {NOT_RUN: {"fig4b": by_depth("fig4b", {64: 0.8})}}),
    ("C11", {"fig4a": by_depth("fig4a", {4: 0.0, 64: 0.1})}, {NOT_RUN: {"fig4a": by_depth("fig4a", {64: None})}}),
    ("C11", {"fig4a": by_depth("fig4a", {64: 0.1, 128: 0.8})}, {FAILS: {"fig4a": by_depth("fig4a", {64: 0.1}, 1.9)}}),
    ("C11", {"fig4c": by_epoch(5000)}, {NOT_RUN: {"fig4c": by_epoch(5000, weights=["orthogonal"])}}),
    (
        "C12",
        {"fig3": by_gain(1.25, slope=0.05, least=0.0)},
        {
            IN_PART: {"fig3": by_gain(slope=0.01, least=0.0)},  # g = 1 gets there too
            FAILS: {"fig3": by_gain(tanh=1.0, relu=1.0, slope=0.1, least=0.0)},
            NOT_RUN: {"fig3": by_gain(slope=0.1, least=0.0, epochs=20)},
        },
    ),
    (
        "C12",
        {"fig3": by_gain(1.25, slope=0.05, least=0.0), "fig4a": by_depth("fig4a", MNIST_ORDER)},
        {IN_PART: {"fig3": by_gain(1.25, slope=0.05, least=0.0), "fig4a": by_depth("fig4a", {2: 0.0, 64: 0.5})}},
    ),
]


@pytest.mark.parametrize(("claim", "good", "others"), CASES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_verdict_is_what_the_numbers_say(claim: str, good: dict[str, Table], others: dict) -> None:
    assert JUDGES[claim](good).verdict == HOLDS
    for verdict, tables in others.items():
        assert JUDGES[claim](tables).verdict == verdict


def test_every_claim_has_numbers_that_hold_and_numbers_that_fail() -> None:
    assert [claim.id for claim in CLAIMS] == [f"C{number}" for number in range(1, 13)]
    for claim in CLAIMS:
        assert FAILS in {verdict for name, _, others in CASES if name == claim.id for verdict in others}, claim.id


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_a_claim_without_its_figures_was_not_run(claim) -> None:
    finding = claim.judge({})
    assert finding.verdict == NOT_RUN
    assert re.search("was not run|none was run", finding.came_out)
    assert set(claim.figures) <= set(figures.NAMES)


@pytest.fixture(scope="module")
def small() -> dict[str, Table]:
    """Everything at scale smoke, with the best numbers one could wish for."""
    return {
        "fig3": by_gain(1.25, slope=0.05, least=0.0, **LITTLE),
        "fig4a": by_depth("fig4a", MNIST_ORDER, **LITTLE),
        "fig4b": by_depth("fig4b", ENCODER, **LITTLE),
        "fig4c": by_epoch(5, **{**LITTLE, "epochs": 3}),
        "fig4d": by_depth("fig4d", PHONES, data="TIMIT sample", examples=1000, epochs=2),
    }


@pytest.mark.parametrize("claim", CLAIMS[5:], ids=lambda claim: claim.id)
def test_smoke_says_nothing_about_training_but_what_came_out_is_told(claim, small: dict[str, Table]) -> None:
    finding = claim.judge(small)
    assert finding.verdict == NOT_RUN
    assert re.search(r"trained on digits, not on MNIST|trained on TIMIT sample, not on TIMIT", finding.came_out)
    assert re.search(r"\d %|\d at D = |mistakes", finding.came_out)


@pytest.mark.parametrize(
    ("claim", "tables"),
    [
        ("C6", {"fig3": by_gain(examples=4_999)}),
        ("C6", {"fig3": by_gain(epochs=4)}),
        ("C6", {"fig3": trained("fig3", lambda **_: 0.1, activation=["tanh", "relu"], gain=[1.2, 1.3, 1.45, 1.5])}),
        ("C6", {"fig3": trained("fig3", lambda **_: 0.1, activation=["tanh", "relu"], gain=[1.2, 1.45, 1.8])}),
        ("C7", {"fig4a": by_depth("fig4a", {2: 0.001, 16: 0.002, 128: 0.01})}),
        ("C7", {"fig4a": by_depth("fig4a", {2: 0.001, 16: 0.002, 32: 0.002})}),
        ("C7", {"fig4a": by_depth("fig4a", {depth: 20 * e for depth, e in MNIST_ORDER.items()}, epochs=8)}),
        ("C7", {"fig4a": by_depth("fig4a", MNIST_ORDER | {32: 0.02}, epochs=8)}),
        ("C8", {"fig4b": by_depth("fig4b", {4: 0.05, 64: 0.08})}),
        ("C8", {"fig4b": by_depth("fig4b", {4: 0.05, 128: 0.3}, epochs=8)}),
        ("C10", {"fig4d": by_depth("fig4d", PHONES | {32: 0.4}, data="TIMIT", epochs=8)}),
        ("C8", {"fig4b": by_depth("fig4b", {4: 0.45, 128: 0.85}, epochs=8)}),  # D = 128 has learned nothing
        ("C12", {"fig3": trained("fig3", lambda **_: 0.0, activation=["tanh", "relu"], gain=[1.2, 1.5])}),
        ("C1", {"fig1": walks(depth=100)}),
        ("C3", {"fig2": Table(gains().columns, gains().facts | {"depth": 20.0})}),
    ],
)
def test_too_little_is_not_run(claim: str, tables: dict[str, Table]) -> None:
    assert JUDGES[claim](tables).verdict == NOT_RUN


def test_fewer_epochs_can_confirm_and_their_verdict_carries_the_scale() -> None:
    reduced = by_gain(examples=10_000, epochs=8)
    row = page.claim_rows({"fig3": reduced})[5]
    assert row.finding.verdict == HOLDS
    assert row.reduced == "10,000 of 60,000 examples, 8 of 500 epochs"
    assert page.claim_rows({"fig3": by_gain()})[5].reduced == ""
    assert page.claim_rows({"fig3": by_gain(epochs=4)})[5].reduced == ""  # no verdict, no scale to it


def test_a_table_without_other_widths_leaves_a_part_of_c2_open() -> None:
    whole = walks()
    old = Table(whole.columns, {name: fact for name, fact in whole.facts.items() if "_" not in name})
    finding = JUDGES["C2"]({"fig1": old})
    assert finding.verdict == IN_PART
    assert "at other widths not run" in finding.came_out


def test_simulated_walks_have_a_variance_that_goes_as_1_over_n() -> None:
    drawn = fig1.compute(1, width=100, depth=500, walks=400, shown=2)
    finding = JUDGES["C2"]({"fig1": drawn})
    power = float(re.search(r"as N to the power (\S+)\.", finding.came_out)[1])
    assert power == pytest.approx(-1, abs=0.12)  # 3 standard errors of 400 walks at 5 widths


def test_what_came_out_names_its_numbers() -> None:
    assert JUDGES["C1"]({"fig1": walks(end=0.03)}).came_out.startswith("+0.030 ± 0.025 after 500 layers, 4,000 walks")
    said = JUDGES["C7"]({"fig4a": by_depth("fig4a", MNIST_ORDER)}).came_out
    assert "0.10 % (60 mistakes) at D = 2, 0.40 % (240 mistakes) at D = 4" in said
    assert (
        "50 from Gaussian weights, within 500 epochs; D = 1000, N = 249"
        in JUDGES["C9"]({"fig4c": by_epoch(50)}).came_out
    )


# Errata


def test_errata_are_nine_and_their_numbers_are_computed() -> None:
    found = {each.id: each for each in errata.errata()}
    assert list(found) == [f"E{number}" for number in range(1, 10)]
    assert "0.02020 for ln z, 0.00505 for ln |δ|, 0.00500 printed" in found["E1"].checked
    assert "-0.69565 = −ln 2 − 2.50/N" in found["E2"].checked
    for number in ("3,994,694", "N = 1229 with 4,000,405", "D = 512 gives 88", "D = 1000 gives 249"):
        assert number in found["E6"].checked
    assert "584 units, 16,049,756 parameters" in found["E7"].checked
    assert "[9816, 30, 9816, 784]" in found["E7"].checked


def test_errata_follow_the_theory(monkeypatch) -> None:
    monkeypatch.setattr(errata, "step", lambda *_, **__: gradwalk.Step(-1.0, 8.0))
    first, second = errata.errata()[:2]
    assert "8.00000 for ln z, 2.00000 for ln |δ|" in first.checked
    assert "-1.00000 = −ln 2 − 306.85/N" in second.checked


def test_without_torch_the_errata_say_what_counts_the_widths() -> None:
    code = """
import sys
sys.modules["torch"] = None  # an import of it fails
from gradwalk.report.errata import errata
print(*(each.id for each in errata() if "pip install 'gradwalk[torch]'" in each.checked))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["E6", "E7"], done.stderr


def test_distances_are_those_of_the_gains() -> None:
    six, ten, *_ = errata.distances()
    assert (six.printed, six.exact) == (gradwalk.gain("relu", 6, formula="paper"), gradwalk.gain("relu", 6))
    assert six.drift == pytest.approx(65.3, abs=0.1)
    assert ten.drift == pytest.approx(4.2, abs=0.05)


def test_every_erratum_stands_beside_a_claim() -> None:
    named = {each for claim in CLAIMS for each in claim.errata}
    assert named == {each.id for each in errata.errata()}


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

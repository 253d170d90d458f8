"""The page shows the verdicts, the runs behind them, and nothing it was not given."""

import json
import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from helpers.report_tables import (
    LITTLE,
    MADE,
    MNIST_ORDER,
    by_depth,
    by_epoch,
    by_gain,
    every_figure,
    trained,
    walks,
)

from gradwalk.figures import FIGURES, Table, table
from gradwalk.report import CLAIMS, VERDICTS, Finding, errata, page
from gradwalk.report.committed import committed
from gradwalk.report.opening import opening

PAPERS_FIGURES = [figure.name for figure in FIGURES if figure.in_paper]
PAPERS_CLAIMS = [claim for claim in CLAIMS if claim.in_paper]


CSS = (files("gradwalk.report") / "page.css").read_text("utf-8")


def what_was_run(name: str, given: Table) -> dict[str, str]:
    return dict(FIGURES[name].what_was_run(given))


# What was run


def test_what_was_run_names_scale_data_seeds_versions_and_time() -> None:
    lines = what_was_run("fig4a", by_depth("fig4a", MNIST_ORDER | {128: None}, examples=10_000, epochs=8))
    assert lines["scale"] == "paper: 10,000 of 60,000 examples, 8 of 500 epochs"
    assert lines["data"] == "MNIST: 10,000 of 60,000 to train on, 10,000 held out"
    assert lines["runs"] == "40: 32 done, 8 diverged"
    assert lines["seeds"] == "0"
    assert lines["date"] == MADE["date"]
    assert lines["time"] == "43 s"
    assert lines["versions"] == MADE["versions"]
    first = what_was_run("fig1", walks())
    assert (first["scale"], first["seed"]) == ("the paper’s own", "0")


def test_runs_of_a_table_with_one_row_per_epoch_are_counted_once() -> None:
    assert what_was_run("fig4c", by_epoch(50, epochs=9))["runs"] == "4: 4 done"


def test_a_stand_in_for_the_data_is_reported() -> None:
    note = "mnist is not available, digits is used instead"
    lines = what_was_run("fig3", by_gain(**LITTLE, made=MADE | {"note": note}))
    assert lines["data"] == f"digits: 1,442 to train on, 10,000 held out. {note}"


def test_the_papers_own_scale_is_not_called_reduced() -> None:
    assert FIGURES["fig3"].reduction(by_gain()) == ""
    assert FIGURES["fig1"].reduction(walks()) == ""


def test_other_data_are_not_counted_against_the_papers() -> None:
    reduced = by_gain(**LITTLE | {"examples": 500})
    assert FIGURES["fig3"].reduction(reduced) == "4 of 500 epochs"


# The page


class Reader(HTMLParser):
    """Collects ids, links, what is loaded, and the rows of tables by their class."""

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
    return every_figure()


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
    assert [each for each in read.loaded if not each.startswith("data:")] == [f"{name}.png" for name in PAPERS_FIGURES]
    for link in read.links:
        if link.startswith("#"):
            assert link[1:] in read.ids
        else:
            assert (written.parent / link).exists()
    assert {f"{name}.{ending}" for name in PAPERS_FIGURES for ending in ("csv", "png")} <= set(read.links)
    assert len(read.ids) == len(set(read.ids))


def test_the_claims_table_has_every_claim_with_its_verdict(written: Path, tables: dict[str, Table]) -> None:
    rows = [" ".join(words) for words in Reader(written.read_text("utf-8")).rows["claims"]]
    for claim, row in zip(PAPERS_CLAIMS, rows, strict=True):
        finding = claim.finding(tables)
        assert claim.words in row
        assert finding.came_out in row
        assert finding.verdict in row
        assert all(name in row for name in claim.errata)


def test_beside_each_verdict_is_the_best_committed_one_with_its_scale(written: Path) -> None:
    rows = [" ".join(words) for words in Reader(written.read_text("utf-8")).rows["claims"]]
    for claim, row in zip(PAPERS_CLAIMS, rows, strict=True):
        best = committed()[claim.name]
        assert f"Best committed: {best.verdict}" in " ".join(row.split())
        assert (f"longest runs: {best.verdict}" in row) == (best.verdict != claim.finding(every_figure()).verdict)
        assert best.came_out in row
        assert f"scale {best.scale}; {best.date}" in row


def test_the_page_is_smaller_than_two_megabytes(written: Path) -> None:
    assert written.stat().st_size < 2e6


def test_the_page_opens_with_three_computed_sentences(tables: dict[str, Table]) -> None:
    verdicts = ["holds"] * 3 + ["holds in part", "does not hold", "undecided"]
    first, second, third = opening(tables, verdicts, ["holds"] * 6)
    assert first.startswith(
        "At the predicted gain the log-norm of the gradient has no drift: after 500 layers its mean"
    )
    assert "over 4,000 random networks is +0.00 ± 0.03, and its variance is 1.00 times the predicted one." in first
    deepest = max(tables["fig4c"].frame["depth"])
    assert second.startswith(f"The deepest network that learned has {deepest:.0f} layers: it makes ")
    assert third == (
        "Of the paper’s 6 claims 3 hold, one holds in part and one fails; one cannot be decided at this scale, which "
        "does not refute it (the longest committed runs decide 6)."
    )


def test_the_opening_reports_a_drift_and_what_was_not_run() -> None:
    drifting, nothing, _ = opening({"fig1": walks(end=3.0)}, [], [])
    assert "drifts: after 500 layers its mean over 4,000 random networks is +3.00" in drifting
    assert nothing == "No network was trained here to classify anything, or none learned."
    assert opening({}, [], [])[0] == "The random walk itself (Figure 1) was not simulated here."


def test_a_network_no_better_than_a_constant_answer_has_not_learned() -> None:
    learned = by_depth("fig4a", {2: 0.1, 64: 0.8}, examples=10_000)
    assert "The deepest network that learned has 2 layers" in opening({"fig4a": learned}, [], [])[1]


@pytest.mark.parametrize("verdict", VERDICTS)
def test_verdicts_are_computed_and_counted(verdict: str, tmp_path: Path, monkeypatch) -> None:
    changed = {claim.name: Finding(verdict, "so it came out") for claim in PAPERS_CLAIMS}
    monkeypatch.setattr(page, "findings", lambda _: changed)
    html = page.page({}, tmp_path)
    count = len(PAPERS_CLAIMS)
    assert f"{verdict}: {count}<" in html
    assert html.count(f'<span class="verdict {verdict.replace(" ", "-")}">{verdict}</span>') == count
    assert f".{verdict.replace(' ', '-')}" in CSS


def test_the_errata_table_has_all_of_them(written: Path) -> None:
    read = Reader(written.read_text("utf-8"))
    assert [row[1] for row in read.rows["errata"]] == [erratum.name for erratum in errata.errata()]
    assert len(read.rows["distances"]) == len(errata.FORMULAS)


def test_a_figure_that_was_not_run_says_why_and_how_to_run_it(tmp_path: Path) -> None:
    table.write(walks(), tmp_path / "fig1.csv")
    html = page.write_page(tmp_path, left_out={"fig4d": "timit is <nowhere>"}).read_text("utf-8")
    assert html.count("<p>Not run.</p>") == 5
    assert "Not run: timit is &lt;nowhere&gt;. It needs the TIMIT corpus (LDC93S1)" in html
    assert "gradwalk reproduce fig4c --out" in html
    assert "gradwalk reproduce fig4d --data timit=FOLDER --out" in html
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
    return [json.loads(panel.json) for panel in FIGURES[name].panels(given)]


def test_every_figure_has_its_panels(tables: dict[str, Table]) -> None:
    count = {name: len(FIGURES[name].panels(tables[name])) for name in PAPERS_FIGURES}
    assert count == {"fig1": 3, "fig2": 6, "fig3": 4, "fig4a": 1, "fig4b": 1, "fig4c": 1, "fig4d": 1}


def test_a_point_of_figure_3_shows_its_run(tables: dict[str, Table]) -> None:
    upper = drawn("fig3", tables["fig3"])[0]
    texts = [text for trace in upper["data"] for text in trace["text"]]
    assert len(texts) == 18
    assert (
        "tanh, g = 0.9, D = 4, N = 100<br>λ in 0.01, λ out 0.01, gaussian weights, seed 0"
        "<br>training error 1.75 % (1,050 mistakes)<br>held out 1.75 % (175 mistakes)"
    ) in texts


def test_a_point_of_figure_4_shows_the_runs_it_is_the_mean_of(tables: dict[str, Table]) -> None:
    (panel,) = drawn("fig4a", tables["fig4a"])
    texts = [text for trace in panel["data"] for text in trace.get("text", [])]
    assert (
        "D = 2, N = 100, λ in 0.01, λ out 0.1<br>mean 0.10 % (60 mistakes)"
        "<br>g = 1.05: 0.10 % (60 mistakes)<br>g = 1.2: 0.10 % (60 mistakes)"
    ) in texts
    assert any("D = 128" in text and "g = 1.05: diverged" in text for text in texts)


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
    assert "hollow: some g diverged" in FIGURES["fig4a"].panels(given)[0].title
    assert "hollow" not in FIGURES["fig4a"].panels(whole)[0].title


def test_the_lower_panels_of_figure_3_show_the_best_run_of_each_g() -> None:
    given = trained(
        "fig3", lambda rate_in, gain, **_: None if gain == 1.6 else rate_in, gain=[1.2, 1.6], rate_in=[0.3, 0.1]
    )
    _, lower = drawn("fig3", given)
    (trace,) = lower["data"]
    assert "training error 10.00 % (6,000 mistakes)" in trace["text"][0]
    assert "diverged" in trace["text"][1]


def test_colours_are_variables_of_both_themes(tables: dict[str, Table]) -> None:
    light, dark = CSS.split("@media screen and (prefers-color-scheme: dark)")
    used = {
        name
        for figure, given in tables.items()
        for panel in FIGURES[figure].panels(given)
        for name in re.findall(r"var\((--[\w-]+)\)", panel.json)
    }
    assert {"--ink", "--blue", "--shade-0", "--shade-8"} <= used
    for name in used | {"--orange", "--purple"} | {f"--shade-{number}" for number in range(9)}:
        assert f"{name}:" in light
        assert f"{name}:" in dark.split("\n}\n")[0]

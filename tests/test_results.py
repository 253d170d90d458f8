"""What results/README.md says is what the files beside it hold, each with its command, versions and date."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from helpers.report_tables import by_gain

from gradwalk.figures import initialisers, loss_by_depth, optimizers, table
from gradwalk.figures.outcomes import clipping
from gradwalk.report import CLAIMS
from gradwalk.report.committed import best_committed, committed
from gradwalk.report.tables import read_tables

RESULTS = Path(__file__).parent.parent / "results"
ERRORS = ("train_error", "test_error")
README = (RESULTS / "README.md").read_text("utf-8")
SECTIONS = re.split(r"^##+ ", README, flags=re.MULTILINE)[1:]


@pytest.fixture(scope="module")
def best_findings():
    return best_committed(RESULTS)


def section(start):
    """Return the section of the README whose title begins so, its line breaks as spaces."""
    (found,) = [each for each in SECTIONS if each.startswith(start)]
    return " ".join(found.split())


@pytest.mark.parametrize("name", committed())
def test_the_table_of_claims_agrees_with_the_best_tables(name, best_findings):
    best = best_findings[name]
    finding = CLAIMS[name].finding(read_tables(RESULTS / best.folder))
    assert (best.verdict, best.came_out) == (finding.verdict, finding.came_out)
    row = f"| {name}: {CLAIMS[name].words} | {best.came_out} | {best.verdict} | {best.scale}, in {best.folder}/ |"
    assert row in README


def test_the_page_shows_the_best_findings_that_are_committed(best_findings):
    assert committed() == best_findings
    assert {claim.name for claim in CLAIMS if claim.in_paper} <= set(best_findings)


def test_the_best_finding_is_decided_or_else_the_one_with_most_training(tmp_path):
    kept = {
        "small": by_gain(examples=10_000),
        "short": by_gain(epochs=50),
        "narrow": by_gain(width=[9]),
        "undecided": by_gain(slope=0.0),
    }
    for folder, rows in kept.items():
        (tmp_path / folder).mkdir()
        table.write(rows, tmp_path / folder / "fig3.csv")
    scales = dict.fromkeys(kept, "paper") | {
        "small": "paper: 10,000 of 60,000 examples",
        "short": "paper: 50 of 500 epochs",
    }
    for folder in scales:  # the best first, each of which is then removed
        best = best_committed(tmp_path)
        assert (best["C6"].folder, best["C6"].scale) == (folder, scales[folder])
        assert best["C6"].verdict == ("undecided" if folder == "undecided" else "holds")
        (tmp_path / folder / "fig3.csv").unlink()
    assert "C1" not in best


@pytest.mark.parametrize("name", ["fig3", "fig4a", "fig4b", "fig4c", "fig4d"])
def test_the_share_of_clipped_steps_is_that_of_the_table(name):
    words = clipping(table.read(RESULTS / "laptop" / f"{name}.csv").frame)
    assert f"| {name.removeprefix('fig').upper()} | {words} |" in README


def test_mistakes_by_gain_at_scale_evening_are_those_of_the_table():
    rows, said = table.read(RESULTS / "evening" / "fig3.csv").frame, section("Figure 3, evening")
    means = rows.groupby(["activation", "depth", "gain", "rate_in"])["train_mistakes"].mean()
    for (_, depth), same in means.groupby(["activation", "depth"]):
        cells = " | ".join(f"{least:,.1f}" for least in same.groupby("gain").min())
        assert f"| {depth} | {cells} |" in said
    assert clipping(rows) in said


@pytest.mark.parametrize("title", ["4A", "4B", "4D"])
def test_the_least_errors_at_scale_evening_are_those_of_the_table(title):
    rows, said = table.read(RESULTS / "evening" / f"fig{title.lower()}.csv").frame, section("Figure 4, evening")
    for depth, same in rows.groupby("depth"):
        least = same.groupby(["rate_in", "rate_out"])[["train_error", "train_mistakes"]].mean().min()
        share = f"{100 * least['train_error']:.2f} % ({least['train_mistakes']:,.1f} mistakes)"
        words = share if title != "4B" else f"{least['train_error']:.4f}"  # a mean squared error
        assert f"| {title} | {depth:.0f} | {words} | " in said
    assert clipping(rows) in said


def test_what_unequal_rates_are_worth_at_scale_evening_is_said():
    said = section("Figure 4, evening")
    rows = table.read(RESULTS / "evening" / "fig4d.csv").frame
    deepest = rows[rows["depth"] == rows["depth"].max()]
    slopes = np.sign(deepest["rate_out"] - deepest["rate_in"])
    means = deepest.groupby([slopes, "rate_in", "rate_out"])["train_mistakes"].mean().groupby(level=0).min()
    assert f"{means[0]:,.0f} of 20,000 mistakes with equal rates, {means[1]:,.0f} with rates that rise" in said
    assert f"input to output, {means[-1]:,.0f} with rates that fall" in said


@pytest.mark.parametrize(
    "folder", sorted({path.parent for path in RESULTS.rglob("*.png")}), ids=lambda each: str(each.relative_to(RESULTS))
)
def test_every_figure_has_its_command_versions_and_date(folder):
    name = folder.relative_to(RESULTS).parts[0]
    about = [each for each in SECTIONS if f"`{name}/" in each]
    assert about, f"no section names `{name}/...`"
    for each in about:
        assert re.search(r"`gradwalk (reproduce|train|sweep) ", each), "the command"
        assert re.search(r"\b20\d\d-\d\d-\d\d\b", each), "the date"
        assert re.search(r"gradwalk\s\d+\.\d+\.\d+", each), "the versions"


def test_the_pages_of_benchmarks_are_made_of_their_numbers(monkeypatch):
    monkeypatch.syspath_prepend(RESULTS.parent / "benchmarks")
    import run

    measured = set()
    for path in RESULTS.glob("benchmarks*.json"):
        found = json.loads(path.read_text("utf-8"))
        assert run.page(found["made"], found["answers"]) == path.with_suffix(".md").read_text("utf-8")
        assert re.fullmatch(r"[0-9a-f]{40}", found["made"]["commit"])
        assert found["made"]["clean"]
        assert not found["made"]["quick"]
        measured |= set(found["answers"])
    assert measured == set(run.NAMES)


def test_the_losses_of_the_initialisers_are_those_of_their_table():
    medians = loss_by_depth.medians(initialisers.runs(table.read(RESULTS / "initialisers" / "initialisers.csv")))
    rows = [line.replace("**", "").strip("| ").split("|") for line in README.splitlines() if line.startswith("| ")]
    shown = {(row[0].strip(), row[1].strip()): [cell.strip() for cell in row[2:]] for row in rows}
    columns = [*loss_by_depth.COMPARED, "leak, orthogonal", "f(100 a)/100, orthogonal"]
    for (title, depth), same in medians.groupby(["panel", "depth"]):
        cells = dict(zip(columns, shown[title, f"{depth:.0f}"], strict=False))
        for weights, loss in zip(same["weights"], same["loss"], strict=True):
            words = f"{loss:.3f}" if loss <= 10 else "diverged" if np.isnan(loss) else "over 10"
            assert cells.pop(weights) == words
        assert not any(cells.values())


def test_the_losses_of_the_optimizers_are_those_of_their_table():
    medians = loss_by_depth.medians(optimizers.runs(table.read(RESULTS / "optimizers" / "optimizers.csv")))
    for (method, depth), rows in medians.groupby(["panel", "depth"]):
        losses = dict(zip(rows["weights"], rows["loss"], strict=True))
        cells = " | ".join(f"{losses[each]:.3f}" for each in ("gaussian", "orthogonal", "torch"))
        assert f"| {method} | {depth:.0f} | {cells} |" in README


def test_a_hundred_layers_on_mnist_learned_what_is_said():
    with (RESULTS / "mnist-100" / "metrics.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["run"] == "1"]
    mistakes = [int(row["train_mistakes"]) for row in rows]
    below = next(epoch for epoch in range(1, 21) if max(mistakes[epoch - 1 :]) < 500)
    said = section("A hundred layers")
    assert f"{mistakes[-1]} of 10,000 training mistakes" in said
    assert f"below 5 % from epoch {below} on" in said
    assert f"{int(rows[-1]['test_mistakes']) / 100:.1f} % held out" in said
    clipped = [int(row["clipped"]) for row in rows]
    assert f"clipped in {sum(clipped)} of 2,000 steps, in {clipped[-1]} of the last 100" in said


def test_the_screen_of_the_papers_network_ended_as_is_said():
    shown = table.read(RESULTS / "paper-network" / "fig4c.csv")
    assert {(1000, 249, 1.05, 1.05)} == set(
        zip(*(shown[name] for name in ("depth", "width", "gain", "gain_in")), strict=True)
    )
    for (rate_in, rate_out), run in shown.frame.groupby(["rate_in", "rate_out"]):
        mistakes, clipped = (
            ", ".join(f"{count:,.0f}" for count in run[name]) for name in ("train_mistakes", "clipped")
        )
        held_out = f"{run['test_mistakes'].iloc[-1]:,.0f}"
        assert f"| {rate_in:g} to {rate_out:g} | {mistakes} | {held_out} | {clipped} |" in README
    assert f"to {shown['train_mistakes'].min():,.0f} in 300 steps" in section("The paper's own network")


def test_the_papers_network_on_all_of_mnist_is_where_it_is_said_to_be():
    (row,) = last_epochs(RESULTS / "paper-network" / "paper.csv")
    said = section("The paper's own network")
    errors = [f"{float(row[name]):.1%}".replace("%", " %") for name in ERRORS]
    assert f"after {row['epoch']} epochs, {600 * int(row['epoch']):,} steps, {int(row['train_mistakes']):,} of" in said
    assert f"({errors[0]}) and {errors[1]} held out" in said
    assert f"{int(row['clipped']):,} of the steps were clipped" in said


def test_the_papers_network_at_equal_rates_got_as_far_as_is_said():
    said = section("The paper's own network")
    with (RESULTS / "paper-network" / "even.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        counts = (f"{int(row[name]):,}" for name in ("epoch", "train_mistakes", "test_mistakes", "clipped"))
        assert f"| {' | '.join(counts)} |" in said
    last = rows[-1]
    errors = [f"{float(last[name]):.1%}".replace("%", " %") for name in ERRORS]
    assert f"{int(last['train_mistakes']):,} of 60,000 training mistakes ({errors[0]}) and {errors[1]} held out" in said
    assert f"after {last['epoch']} epochs, {600 * int(last['epoch']):,} steps" in said


@pytest.mark.parametrize(("weights", "title"), [("orthogonal", "A thousand layers"), ("gaussian", "From Gaussian")])
def test_a_thousand_layers_learned_what_is_said(weights, title):
    found = table.read(RESULTS / "thousand" / weights / "fig4c.csv")
    epochs, train, held = (found[name].astype(int).tolist() for name in ("epoch", "train_mistakes", "test_mistakes"))
    assert epochs == list(range(1, len(epochs) + 1))
    assert set(found["weights"]) == {weights}
    assert set(found["depth"]) == {1000}
    said = section(title)
    assert f"{train[0]:,} of 60,000 training mistakes after the first epoch" in said
    assert f"{train[-1]:,} after {len(epochs)}" in said
    assert f"{held[-1] / 100:.1f} % held out" in said


def test_how_often_the_gradient_of_a_thousand_layers_was_clipped_is_said():
    clipped = table.read(RESULTS / "thousand" / "orthogonal" / "fig4c.csv")["clipped"].astype(int)
    words = (
        f"{clipped[0]} of the 600 steps of the first epoch, in {clipped[9]} of the tenth, and in {clipped[-1]} of the"
    )
    assert words in section("A thousand layers")


def test_so_many_directions_pass_through_a_thousand_layers_as_is_said():
    with (RESULTS / "thousand" / "jacobian.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    said = section("From Gaussian")
    for weights, width in (("gaussian", "128"), ("gaussian", "249"), ("orthogonal", "64")):
        same = [row for row in rows if (row["weights"], row["width"]) == (weights, width)]
        assert len(same) == 3
        passing = sorted(row["directions"] for row in same)
        second = sorted(np.exp(float(row["log_s2"]) - float(row["log_s1"])) for row in same)
        ends = f"{passing[0]} to {passing[-1]} | {same[0]['predicted']} ± {same[0]['standard_error']}"
        assert f"| {width} | {ends} | {second[0]:.1g} to {second[-1]:.1g} |" in said


def test_pages_of_results_do_not_make_the_tree_unclean_for_further_parts(monkeypatch):
    monkeypatch.syspath_prepend(RESULTS.parent / "benchmarks")
    import run

    status = " M results/benchmarks.json\n M results/benchmarks.md\n"
    monkeypatch.setattr(run.subprocess, "run", lambda *_, **__: run.subprocess.CompletedProcess((), 0, status, ""))
    assert run.made(False, RESULTS / "benchmarks")["clean"]
    assert not run.made(False, RESULTS / "others")["clean"]


def test_the_targets_of_the_benchmarks_are_counted_right():
    found = json.loads((RESULTS / "benchmarks.json").read_text("utf-8"))["answers"]
    targets = [target for answer in found.values() for target in answer["targets"]]
    missed = [target for target in targets if not target["holds"]]
    said = section("Benchmarks")
    assert f"{len(targets) - len(missed)} of its {len(targets)} targets hold" in said
    for target in missed:
        assert f"| {target['claim']} | {target['found']} |" in said


def test_a_quarter_of_the_papers_network_ended_as_is_said():
    said, ends = section("The paper's own network"), []
    for (rate, seed), run in pd.read_csv(RESULTS / "paper-network" / "quarter.csv").groupby(["rate_in", "seed"]):
        by_epoch = run.set_index("epoch")
        mistakes = ", ".join(f"{by_epoch['train_mistakes'][epoch]:,}" for epoch in range(100, 501, 100))
        clipped = f"{run['clipped'].sum() / 50_000:.0%}".replace("%", " %")
        assert f"| {rate:g} | {seed} | {mistakes} | {by_epoch['test_mistakes'][500]:,} | {clipped} |" in said
        ends.append(by_epoch["train_mistakes"][500])
    assert len(ends) == 4
    assert f"They end with {min(ends):,} to {max(ends):,} training mistakes of 10,000" in said


def last_epochs(path):
    """Return the last row of each run in a file that `gradwalk sweep export --epochs` wrote."""
    with path.open(encoding="utf-8") as file:
        return {row["identity"]: row for row in csv.DictReader(file)}.values()


def test_more_seeds_of_the_proposed_leak_learn_as_is_said():
    names = ("advised-1000-more", "advised-1000-again")
    rows = pd.concat([pd.read_csv(RESULTS / "directions" / f"{name}.csv") for name in names])
    assert rows.groupby("activation").size().tolist() == [6] * 5
    least, most = rows["train_mistakes"].min(), rows["train_mistakes"].max()
    said = section("A leak, by activation")
    assert f"{least:,.0f} to {most:,.0f} training mistakes over the five activations" in said


@pytest.mark.parametrize("name", ["advised-1000", "advised-256", "layers-256"])
def test_networks_with_a_leak_learned_what_is_said(name):
    said = section("A leak, by activation")
    for row in last_epochs(RESULTS / "directions" / f"{name}.csv"):
        ended = f"{int(row['train_mistakes']):,} | {int(row['test_mistakes']):,}"
        assert f"| {row['depth']} | {row['activation']} | {row['seed']} | {row['epoch']} | {ended} |" in said


def test_more_seeds_at_256_layers_ended_as_is_said():
    said, cells = section("A leak, by activation"), {}
    for place, name in enumerate(("more", "decay")):
        for row in last_epochs(RESULTS / "directions" / f"advised-256-{name}.csv"):
            cells.setdefault(row["activation"], ([], []))[place].append(row["train_mistakes"])
    assert len(cells) == 6
    for activation, ends in cells.items():
        assert f"| {activation} | {' | '.join(', '.join(counts) or 'not run' for counts in ends)} |" in said


@pytest.mark.parametrize(("depth", "most"), [(1000, 2000), (256, 100)])
def test_networks_with_the_leaks_that_are_proposed_now_ended_as_is_said(depth, most):
    said, ends = section("A leak, by activation"), {}
    for row in last_epochs(RESULTS / "directions" / f"advised-{depth}-resampled.csv"):
        ends.setdefault(row["activation"], []).append(int(row["train_mistakes"]))
    assert len(ends) == 3
    for activation, mistakes in ends.items():
        assert max(mistakes) < most
        assert f"| {depth} | {activation} | {', '.join(f'{count:,}' for count in mistakes)} |" in said


@pytest.mark.parametrize("depth", [1000, 256])
def test_a_users_own_network_learned_what_is_said(depth):
    rows = pd.read_csv(RESULTS / "directions" / f"sequential-{depth}.csv")
    mistakes = rows.set_index(["activation", "seed"])["train_mistakes"]
    assert mistakes.max() < (2000 if depth == 1000 else 100)
    ended = "; ".join(
        f"{name} {', '.join(f'{mistakes[name, seed]:,}' for seed in range(3))}" for name in rows["activation"].unique()
    )
    said = " ".join(section("A leak, by activation").split())
    assert f"training mistakes of 10,000 with the seeds 0, 1 and 2: {ended}." in said


def test_networks_without_a_leak_ended_as_is_said():
    said = section("A leak, by activation")
    names = ("thousand-plain", "thousand-plain-gaussian")
    tables = [pd.read_csv(RESULTS / "directions" / f"{name}.csv") for name in names]
    assert [table["weights"].unique().tolist() for table in tables] == [["orthogonal"], ["gaussian"]]
    ends = [
        ["diverged" if np.isnan(count) else f"{count:,.0f}" for count in table["train_mistakes"]] for table in tables
    ]
    for activation, *ended in zip(tables[0]["activation"], *ends, strict=True):
        assert f"| {activation} | {' | '.join(ended)} |" in said


def test_ten_thousand_layers_by_gain_ended_as_is_said():
    said = section("Depth as far as it goes")
    with (RESULTS / "deep" / "ten-thousand-gains.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["status"] != "waiting"]
    assert len(rows) == 6
    for row in rows:
        errors = [f"{float(row[name]):.1%}".replace("%", " %") if row[name] else "diverged" for name in ERRORS]
        assert f"| {row['gain'] or 'unbiased'} | {' | '.join(errors)} |" in said


@pytest.mark.parametrize("name", ["thousand", "ten-thousand", "hundred-thousand"])
def test_the_deepest_networks_learned_what_is_said(name):
    said, last = section("Depth as far as it goes"), 0
    for row in pd.read_csv(RESULTS / "deep" / f"{name}.csv").fillna({"examples": 60_000}).itertuples():
        steps, last = (row.epoch - last) * int(row.examples) // row.batch, row.epoch
        counts = f"{row.train_mistakes:,} | {row.test_mistakes:,} | {row.clipped} of {steps}"
        assert f"| {row.depth:,} | {row.epoch} | {counts} |" in said


@pytest.mark.parametrize(("name", "rates"), [("linear", "four"), ("thousand-linear", "three")])
def test_a_linear_network_beside_them_ended_as_is_said(name, rates):
    said = " ".join(section("Depth as far as it goes").split())
    ends = list(last_epochs(RESULTS / "deep" / f"{name}.csv"))
    best = min(ends, key=lambda row: int(row["train_mistakes"]))
    assert f"keeps {int(best['train_mistakes']):,} training mistakes at the best of {rates} rates" in said
    assert len(ends) == {"four": 4, "three": 3}[rates]
    shown = {"four": f"against {float(best['test_error']):.1%}", "three": f"{best['test_mistakes']} of 10,000 held out"}
    assert shown[rates].replace("%", " %") in said

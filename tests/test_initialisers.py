"""The figure that compares initialisers by depth, and the claims that go with it."""

import itertools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.report_tables import MADE
from matplotlib.colors import to_hex
from typer.testing import CliRunner

import gradwalk
from gradwalk import cli
from gradwalk.figures import Table, initialisers, loss_by_depth, table
from gradwalk.figures.initialisers import FIGURE
from gradwalk.figures.loss_by_depth import COMPARED, Contest
from gradwalk.report import CLAIMS, Finding, page
from gradwalk.report.finding import FAILS, HOLDS, IN_PART, NOT_RUN, UNDECIDED
from gradwalk.sweep import Spec, Store

# Specs


def test_rate_is_both_rates_at_once() -> None:
    spec = Spec.load("rate = [0.1, 0.2]\ndepth = [4, 8]\nwidth = 8")
    assert [(run.rate_in, run.rate_out, run.depth) for run in spec.runs()] == [
        *((0.1, 0.1, 4), (0.1, 0.1, 8)),
        *((0.2, 0.2, 4), (0.2, 0.2, 8)),
    ]
    assert Spec.load(spec.toml()).runs() == spec.runs()


def test_a_setting_replaces_the_one_it_excludes() -> None:
    spec = Spec.load("params = 3e4\nrate_in = 0.3\nruns = [{depth = 4}, {depth = 8, width = 9, rate = 0.5}]")
    assert [(run.params, run.width, run.rate_in) for run in spec.runs()] == [(3e4, None, 0.3), (None, 9, 0.5)]
    assert {run.width for run in spec.override(["width=7"]).runs()} == {7}
    assert {run.params for run in spec.override(["params=5e4"]).runs()} == {5e4}
    assert {(run.rate_in, run.rate_out) for run in spec.override(["rate=0.2"]).runs()} == {(0.2, 0.2)}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rate = 0.1\nrate_in = 0.2", "sweep: rate sets rate_in and rate_out, and cannot be combined with rate_in"),
        ("rate = 0", "sweep: rate_in must be greater than 0"),
        ("width = 8\nparams = 1e4", "sweep: only one of width and params can be given"),
        ("weights = ['lsuv', 'gaussian']\ngain = 1.1", "sweep: gain cannot be set for weights='lsuv'"),
    ],
)
def test_settings_that_exclude_each_other_are_reported(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        Spec.load(text)


@pytest.mark.parametrize("scale", ["smoke", "quick", "laptop"])
def test_the_spec_of_each_scale_has_all_initialisers_and_the_same_rates_for_each(scale: str) -> None:
    runs = Spec.load(FIGURE.spec_text(scale)).runs()
    grids: dict[tuple[str, int], dict[str, set]] = {}
    for run in runs:
        cell = grids.setdefault((run.activation, run.depth), {})
        cell.setdefault(run.weights, set()).add((run.rate_in, run.seed))
        assert (run.epochs, run.rate_in) == (1, run.rate_out)
    assert {run.weights for run in runs} == set(COMPARED)
    for by_weights in grids.values():
        assert len(set(map(frozenset, by_weights.values()))) == 1
    assert len({run.rate_in for run in runs}) > 1


def test_a_figure_that_is_not_in_the_paper_has_no_scale_paper() -> None:
    sentence = "figures: initialisers has no spec at scale 'paper'; its scales are smoke, quick, laptop"
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        FIGURE.spec_text("paper")


# The table


Loss = Callable[..., float | None]


def made_up(loss: Loss, *, names=("tanh", "relu"), depths=(4, 64, 256), seeds=3, weights=COMPARED, **more) -> Table:
    """Return a table of the figure; `loss` returns that of a run with these settings, None if it diverges."""
    facts = {"data": "mnist", "train_examples": 10_000, "test_examples": 10_000, "task": "classify", "width": 48}
    facts |= {"optimizer": "sgd", "weight_decay": 0.0, "decay": 0.995, "batch": 100, "clip": 10.0, "epochs": 1}
    rows = []
    for name, scheme, depth, rate, seed in itertools.product(names, weights, depths, (0.1, 0.01), range(seeds)):
        given = loss(name=name, weights=scheme, depth=depth, rate=rate, seed=seed)
        value = np.nan if given is None else given
        ended = {"status": "diverged" if given is None else "done", "diverged": 1 if given is None else np.nan}
        settings = {"activation": name, "weights": scheme, "depth": depth, "params": np.nan, "seed": seed}
        rates = {"gain": 1.1 if scheme in loss_by_depth.walks() else np.nan, "rate_in": rate, "rate_out": rate}
        measured = dict.fromkeys(("train_loss", "test_loss", "train_error", "test_error", "lowest_error"), value)
        measured |= {"train_mistakes": value, "test_mistakes": value, "epoch": 1, "clipped": 0, "seconds": 1.0}
        rows.append(facts | settings | rates | ended | measured | {"constant_error": 0.9} | more)
    return Table.of(rows, made=MADE | {"scale": "laptop"})


def deep_win(weights: str, depth: int, seed: int, **_: object) -> float:
    """Peers are lower at 4 layers and near chance beyond; the orthogonal walk learns at all depths."""
    if depth == 4:
        return 0.3 if weights == "lsuv" else 0.4
    return 0.5 + 0.01 * seed if weights == "orthogonal" else 2.29


def test_the_best_rate_counts_and_the_median_over_seeds() -> None:
    losses = {(0.1, 0): 0.2, (0.1, 1): 0.9, (0.1, 2): 1.0, (0.01, 0): 0.7, (0.01, 1): 0.8, (0.01, 2): 0.6}
    given = made_up(lambda rate, seed, **_: losses[rate, seed], names=["tanh"], depths=[4])
    found = loss_by_depth.medians(initialisers.runs(given))
    assert set(found["loss"]) == {0.7}
    assert set(found["rate"]) == {0.01}
    assert set(zip(found["least"], found["most"], found["runs"], found["diverged"], strict=True)) == {(0.6, 0.8, 3, 0)}


@pytest.mark.parametrize(
    ("lost", "loss", "least"), [((0,), 0.6, 0.5), ((0, 1), np.nan, 0.6), ((0, 1, 2), np.nan, np.nan)]
)
def test_a_diverged_seed_counts_as_infinitely_large(lost: tuple[int, ...], loss: float, least: float) -> None:
    given = made_up(lambda seed, **_: None if seed in lost else 0.4 + 0.1 * seed, names=["tanh"], depths=[4])
    found = loss_by_depth.medians(initialisers.runs(given))
    np.testing.assert_allclose(found["loss"], loss)
    np.testing.assert_allclose(found["least"], least)
    assert set(found["diverged"]) == {len(lost)}


@pytest.mark.parametrize(
    ("walk", "peer", "outcome"),
    [(0.5, 0.6, "walk"), (0.6, 0.5, "peer"), (0.5, 0.505, "tied"), (2.29, 2.3, "none"), (0.5, math.inf, "walk")],
)
def test_a_contest_is_won_tied_lost_or_without_anyone_who_learned(walk: float, peer: float, outcome: str) -> None:
    assert Contest(64, "gaussian", walk, "lsuv", peer).outcome == outcome
    assert Contest(64, "gaussian", math.inf, "lsuv", math.inf).outcome == "none"


# The claim


def judged(given: Table | None) -> Finding:
    return CLAIMS["I1"].finding({} if given is None else {"initialisers": given})


def test_the_claim_holds_where_the_walk_is_lower_from_some_depth_on() -> None:
    finding = judged(made_up(deep_win))
    words = "tanh from D = 64 on (lower at 64, 256, higher at 4; D = 256: random walk, orthogonal 0.510"
    assert finding.verdict == HOLDS
    assert words in finding.came_out


def test_the_claim_holds_in_part_where_one_activation_is_lost() -> None:
    def loss(name: str, weights: str, **more: int) -> float:
        return deep_win(weights, **more) if name == "tanh" else 0.3 if weights == "kaiming" else 0.5

    found = judged(made_up(loss))
    assert found.verdict == IN_PART
    assert "ReLU at no depth up to the last (higher at 4, 64, 256" in found.came_out


@pytest.mark.parametrize(
    "loss",
    [
        lambda weights, **_: 0.3 if weights == "lsuv" else 0.31,
        lambda **_: 0.5,
        lambda **_: 2.3,
        lambda **_: None,
        lambda weights, depth, **_: 0.5 if weights == "lsuv" and depth == 256 else deep_win(weights, depth, 0),
    ],
    ids=["a peer is lower", "all tied", "none learns", "all diverge", "lost again at the greatest depth"],
)
def test_the_claim_fails_where_a_peer_is_as_good_at_the_greatest_depth(loss: Loss) -> None:
    assert judged(made_up(loss)).verdict == FAILS


@pytest.mark.parametrize(
    ("given", "verdict", "why"),
    [
        (None, NOT_RUN, "Initialisers was not run."),
        (made_up(deep_win, data="digits"), UNDECIDED, "trained on digits, not on MNIST"),
        (made_up(deep_win, train_examples=1000), UNDECIDED, "only 1,000 examples"),
        (made_up(deep_win, depths=(4, 64)), UNDECIDED, "no 256 layers"),
        (made_up(deep_win, weights=[each for each in COMPARED if each != "lsuv"]), UNDECIDED, "lsuv not run"),
    ],
)
def test_too_little_is_undecided(given: Table | None, verdict: str, why: str) -> None:
    finding = judged(given)
    assert finding.verdict == verdict
    assert why in finding.came_out


def with_leaks(loss: float | None, depths=(4, 64, 1000)) -> Table:
    """Return a table in which only networks with a leak, and of 4 layers, learn; the leaks to that loss."""
    peers = made_up(lambda depth, **_: 0.4 if depth == 4 else 2.29, depths=depths)
    leaks = made_up(lambda **_: loss, depths=depths, names=("tanh@0.9", "leaky_relu(0.9)"), weights=["orthogonal"])
    scaled = made_up(lambda **_: 2.29, depths=depths, names=("tanh*100", "relu*100"), weights=["orthogonal"])
    rows = [row for each in (peers, leaks, scaled) for row in each.frame.to_dict("records")]
    return Table.of(rows, made=peers.made)


def test_with_remedies_every_activation_learns_at_every_depth() -> None:
    finding = CLAIMS["I2"].finding({"initialisers": with_leaks(0.6)})
    assert finding.verdict == HOLDS
    assert "ReLU random walk, Gaussian 0.400 at D = 4, leak, orthogonal 0.600 at D = 64" in finding.came_out


def test_a_remedy_wins_nothing_for_the_initialisers() -> None:
    finding = judged(with_leaks(0.6))
    assert finding.verdict == FAILS
    assert "leak" not in finding.came_out


@pytest.mark.parametrize(
    ("given", "verdict", "why"),
    [
        (with_leaks(2.2), FAILS, "2.200 at D = 1000"),
        (with_leaks(None), FAILS, "2.290 at D = 1000"),
        (with_leaks(0.6, depths=(4, 256)), UNDECIDED, "no 1000 layers of each activation"),
        (made_up(lambda **_: 0.4, depths=(4, 1000)), UNDECIDED, "no remedy was run"),
        (made_up(lambda **_: 0.4, data="digits"), UNDECIDED, "trained on digits, not on MNIST"),
    ],
    ids=["a leak that does not help", "diverged", "shallow", "no remedy", "other data"],
)
def test_remedies_that_fail_or_are_missing(given: Table, verdict: str, why: str) -> None:
    finding = CLAIMS["I2"].finding({"initialisers": given})
    assert finding.verdict == verdict
    assert why in finding.came_out


# Pictures and page


def test_the_figure_has_one_panel_per_activation_and_one_line_per_initialiser() -> None:
    drawn_ = initialisers.draw(made_up(deep_win, names=("tanh", "relu", "selu", "gelu")))
    titles = [panel.get_title() for panel in drawn_.axes if panel.get_title()]
    assert titles == ["tanh", "ReLU", "selu", "gelu"]
    first = drawn_.axes[0]
    assert len(first.containers) == len(COMPARED)
    assert len({to_hex(each[0].get_color()) for each in first.containers}) == len(COMPARED)
    assert len({each[0].get_marker() for each in first.containers}) == len(COMPARED)
    labels = {text.get_text() for text in drawn_.legends[0].get_texts()}
    assert labels == {loss_by_depth.title(weights) for weights in COMPARED}


def test_a_remedy_is_a_line_of_its_own_beside_the_activation_it_is_for() -> None:
    drawn_ = initialisers.draw(with_leaks(0.6))
    assert [panel.get_title() for panel in drawn_.axes if panel.get_title()] == ["tanh", "ReLU"]
    labels = [text.get_text() for text in drawn_.legends[0].get_texts()]
    assert labels[-2:] == ["f(100 a)/100, orthogonal", "leak, orthogonal"]
    assert all(len(panel.containers) == len(COMPARED) + 2 for panel in drawn_.axes[:2])
    upper = json.loads(initialisers.panels(with_leaks(0.6))[0].json)
    leak = next(trace for trace in upper["data"] if trace["name"] == "leak, orthogonal")
    assert leak["line"]["dash"] == "solid"
    assert leak["text"][0].startswith("tanh@0.9, leak, orthogonal")


def test_runs_that_diverged_lie_on_a_line_of_that_name() -> None:
    given = made_up(lambda weights, **_: None if weights == "kaiming" else 0.5, names=["tanh"])
    (panel,) = initialisers.draw(given).axes
    assert "diverged,\nor > 10" in {text.get_text() for text in panel.texts}
    (page_panel,) = initialisers.panels(given)
    lost = next(trace for trace in json.loads(page_panel.json)["data"] if trace["name"] == "Kaiming")
    assert "seed 0: diverged" in lost["text"][0]


def test_a_point_of_the_page_shows_its_runs() -> None:
    upper, _ = (json.loads(each.json) for each in initialisers.panels(made_up(deep_win)))
    walk = next(trace for trace in upper["data"] if trace["name"] == "random walk, orthogonal")
    assert walk["text"][1] == (
        "tanh, random walk, orthogonal, g = 1.1<br>D = 64, N = 48, rate 0.01<br>seed 0: loss 0.5, held out 0.5"
        "<br>seed 1: loss 0.51, held out 0.51<br>seed 2: loss 0.52, held out 0.52"
    )
    assert "chance, ln 10" in {note["text"] for note in upper["layout"]["annotations"]}


def test_the_page_shows_the_claim_apart_from_the_papers(tmp_path: Path) -> None:
    table.write(made_up(deep_win), tmp_path / "initialisers.csv")
    html = page.write_page(tmp_path).read_text("utf-8")
    assert "Not in the paper</h3>" in html
    assert 'id="I1"' in html
    assert 'id="initialisers-2"' in html
    assert f"{NOT_RUN}: 12" in html  # the paper's are counted alone
    assert re.search(r'id="I1".*?<span class="verdict holds">', html, re.DOTALL)
    assert "Not in the paper</h3>" not in page.page({}, tmp_path)


def test_what_was_run_is_not_compared_with_the_paper() -> None:
    lines = dict(FIGURE.what_was_run(made_up(deep_win)))
    assert lines["scale"] == "laptop"
    assert lines["runs"] == "252: 252 done"
    assert "parameter limit" not in lines


# The command line


def reproduce(*arguments: str):
    return CliRunner().invoke(cli.app(), ["reproduce", *arguments])


TINY = """
data = "digits"
examples = 200
epochs = 1
width = 8
depth = 2
activation = ["tanh", "relu"]
weights = ["torch", "lsuv", "gaussian", "orthogonal"]
rate = [0.1, 0.01]
"""


def test_the_figure_is_drawn_from_a_tiny_spec(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    done = reproduce("initialisers", "--spec", str(tmp_path / "tiny.toml"), "--out", str(tmp_path), "--threads", "1")
    assert done.exit_code == 0, done.output
    shown = table.read(tmp_path / "initialisers.csv")
    assert len(shown.frame) == 16
    assert np.isnan(shown.where(weights="torch")["gain"]).all()
    assert np.isnan(shown["params"]).all()
    assert set(shown["width"]) == {8}
    expected = gradwalk.gain("relu", 8)
    np.testing.assert_allclose(shown.where(weights="gaussian", activation="relu")["gain"], expected)
    assert (tmp_path / "initialisers.png").stat().st_size > 10_000


def test_all_is_the_paper_and_the_figure_is_requested_by_name() -> None:
    assert not FIGURE.in_paper
    assert "Initialisers" not in reproduce("all", "--print-spec").stdout
    assert "Initialisers, smoke" in reproduce("initialisers", "--print-spec").stdout
    both = reproduce("all", "initialisers", "--print-spec").stdout
    assert "Initialisers, smoke" in both
    assert "Figure 3, smoke" in both


def test_train_takes_a_width_and_a_peer(tmp_path: Path) -> None:
    settings = ["--data", "digits", "--examples", "200", "--depth", "4", "--width", "8", "--epochs", "1"]
    arguments = ["train", *settings, "--weights", "lsuv", "--seed", "0,1", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli.app(), arguments)
    assert done.exit_code == 0, done.output
    assert "tanh D=4 N=8" in done.stdout
    with Store(tmp_path / "out") as store:
        assert {result.run.weights for result in store.results()} == {"lsuv"}
    wrong = CliRunner().invoke(cli.app(), ["train", *settings, "--params", "1e4", "--out", str(tmp_path / "no")])
    assert isinstance(wrong.exception, ValueError)
    assert "only one of width and params can be given" in str(wrong.exception)


def test_the_summary_names_the_best_of_each_side() -> None:
    lines = dict(initialisers.summary(made_up(deep_win)))
    assert lines["ReLU, D = 256"] == "random walk, orthogonal 0.510; Kaiming 2.290"
    lines = dict(initialisers.summary(with_leaks(0.6)))
    assert lines["ReLU, D = 64"].endswith("; leak, orthogonal 0.600")
    assert lines["width"] == "48"

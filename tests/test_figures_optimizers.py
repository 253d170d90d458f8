"""The figure that compares optimizers by depth from two initial weights, and the claim that goes with it."""

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.report_tables import MADE, trained

from gradwalk import reproduce
from gradwalk.figures import Table, loss_by_depth, optimizers, table
from gradwalk.figures.optimizers import FIGURE
from gradwalk.report import CLAIMS, Finding
from gradwalk.report.finding import FAILS, HOLDS, IN_PART, NOT_RUN, UNDECIDED
from gradwalk.sweep import Spec

METHODS = (("sgd", 0.0), ("momentum", 0.0), ("adam", 0.0), ("sgd", 1e-3))


def made_up(
    loss: Callable[..., float | None], methods=METHODS, depths=(4, 64), seeds=(0, 1, 2), **more: object
) -> Table:
    """Return a table of the figure; `loss` returns that of a run with these settings, None if it diverges."""
    parts = [
        trained(
            "fig3",
            loss,
            optimizer=[optimizer],
            weight_decay=[decay],
            weights=["torch", "gaussian", "orthogonal"],
            depth=list(depths),
            seed=list(seeds),
            **{"examples": 10_000, "epochs": 2} | more,
        ).frame
        for optimizer, decay in methods
    ]
    rows = list(itertools.chain.from_iterable(part.to_dict("records") for part in parts))
    return Table.of(rows, made=MADE | {"scale": "quick"})


def walk_wins(weights: str, depth: int, **_: object) -> float:
    """Every method learns at 4 layers, and at 64 only from the orthogonal walk."""
    return 0.4 if depth == 4 or weights == "orthogonal" else 2.3


def judged(given: Table | None) -> Finding:
    return CLAIMS["O1"].finding({} if given is None else {"optimizers": given})


def test_the_claim_holds_where_the_walk_is_lower_with_every_method() -> None:
    finding = judged(made_up(walk_wins))
    assert finding.verdict == HOLDS
    assert "Adam at D = 64: random walk, orthogonal 0.400, torch default 2.300" in finding.came_out


def test_the_claim_holds_in_part_where_one_method_is_lost() -> None:
    finding = judged(made_up(lambda optimizer, **more: 2.3 if optimizer == "adam" else walk_wins(**more)))
    assert finding.verdict == IN_PART


@pytest.mark.parametrize(
    "loss",
    [lambda **_: 2.3, lambda **_: 0.5, lambda **_: None, lambda weights, **_: 0.3 if weights == "torch" else 0.4],
    ids=["none learns", "all tied", "all diverge", "torch is lower"],
)
def test_the_claim_fails_where_the_walk_is_never_lower(loss: Callable[..., float | None]) -> None:
    assert judged(made_up(loss)).verdict == FAILS


@pytest.mark.parametrize(
    ("given", "verdict", "why"),
    [
        (None, NOT_RUN, "Optimizers was not run."),
        (made_up(walk_wins, data="digits"), UNDECIDED, "trained on digits, not on MNIST"),
        (made_up(walk_wins, examples=1000), UNDECIDED, "only 1,000 examples"),
        (made_up(walk_wins, depths=(4, 32)), UNDECIDED, "no 64 layers"),
        (made_up(walk_wins, methods=METHODS[:3]), UNDECIDED, "weight decay not run"),
        (made_up(walk_wins, methods=[("sgd", 0.0), ("adam", 1e-3)]), UNDECIDED, "momentum not run"),
    ],
)
def test_too_little_is_undecided(given: Table | None, verdict: str, why: str) -> None:
    finding = judged(given)
    assert finding.verdict == verdict
    assert why in finding.came_out


def test_a_method_is_an_optimizer_with_its_weight_decay_and_has_a_panel_of_its_own() -> None:
    given = made_up(walk_wins, methods=[("adam", 1e-3), ("sign(0.5)", 0.0), ("adam", 0.0), ("sgd", 0.0)])
    titles = ["SGD", "Adam", "sign(0.5)", "Adam, weight decay 0.001"]
    assert loss_by_depth.panels(optimizers.runs(given)) == titles
    assert [panel.get_title() for panel in optimizers.draw(given).axes] == titles
    assert [panel.title for panel in optimizers.panels(given)] == titles


def test_methods_are_not_mixed_with_each_other() -> None:
    losses = dict(zip(METHODS, (0.1, 0.2, 0.3, 0.4), strict=True))
    given = made_up(lambda optimizer, weight_decay, **_: losses[optimizer, weight_decay])
    points = loss_by_depth.medians(optimizers.runs(given))
    assert {name: set(rows["loss"]) for name, rows in points.groupby("panel")} == {
        "SGD": {0.1},
        "momentum": {0.2},
        "Adam": {0.3},
        "SGD, weight decay 0.001": {0.4},
    }


@pytest.mark.parametrize("scale", ["smoke", "quick", "laptop"])
def test_every_method_has_as_many_rates_from_each_of_the_weights(scale: str) -> None:
    rates: dict[tuple[str, float, str], set] = {}
    for run in Spec.load(FIGURE.spec_text(scale)).runs():
        rates.setdefault((run.optimizer, run.weight_decay, run.weights), set()).add((run.depth, run.rate_in, run.seed))
    assert {"torch", "orthogonal"} <= {weights for _, _, weights in rates}
    assert len({len(grid) for grid in rates.values()}) == 1
    for optimizer, decay, weights in rates:
        assert rates[optimizer, decay, weights] == rates[optimizer, decay, "torch"]
    assert {"sgd", "momentum", "adam"} <= {optimizer for optimizer, _, _ in rates}


TINY = """
data = "digits"
examples = 200
epochs = 1
width = 8
depth = 3
weights = ["torch", "orthogonal"]
runs = [{ optimizer = "sgd", rate = 0.1 }, { optimizer = "adam", weight_decay = 0.01, rate = 0.01 }]
"""


def test_the_figure_is_drawn_from_a_tiny_spec(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    result = reproduce("optimizers", spec=tmp_path / "tiny.toml", out=tmp_path, threads=1)
    shown = table.read(tmp_path / "optimizers.csv")
    assert set(zip(shown["optimizer"], shown["weight_decay"], strict=True)) == {("sgd", 0.0), ("adam", 0.01)}
    assert np.isfinite(shown["train_loss"]).all()
    assert result.findings["O1"].verdict == UNDECIDED
    assert not FIGURE.in_paper

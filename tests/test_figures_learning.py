"""The figure of training loss against predicted directions, and the claim that goes with it."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.report_tables import MADE

from gradwalk import directions, reproduce
from gradwalk.figures import Table, learning
from gradwalk.figures.learning import FIGURE
from gradwalk.report import CLAIMS, Finding
from gradwalk.report.finding import FAILS, HOLDS, IN_PART, NOT_RUN, UNDECIDED
from gradwalk.sweep import Spec

PASSING = (1.2, 1.5, 1.8, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 40.0)  # directions of the made-up networks


def made_up(
    loss: Callable[[float], float | None], *, passing=PASSING, depths=(16, 64), spread: float = 1.0, **more: object
) -> Table:
    """Return a table of the figure; `loss` returns that of a network with so many directions, None if it diverges."""
    rows = []
    for (place, count), depth, rate, seed in itertools.product(enumerate(passing), depths, (0.1, 0.01), range(3)):
        given = loss(count)
        value = np.nan if given is None else given + 0.001 * seed + (rate == 0.01)
        settings = {"activation": f"tanh@0.{place + 1}", "weights": "orthogonal", "depth": depth, "seed": seed}
        settings |= {
            "data": "mnist",
            "train_examples": 10_000,
            "test_examples": 10_000,
            "task": "classify",
            "width": 48,
        }
        settings |= {"optimizer": "sgd", "weight_decay": 0.0, "decay": 0.995, "batch": 100, "clip": 10.0, "epochs": 1}
        settings |= {"gain": 1.1, "rate_in": rate, "rate_out": rate, "params": np.nan}
        ended = {"status": "diverged" if given is None else "done", "diverged": 1 if given is None else np.nan}
        measured = dict.fromkeys(("train_loss", "test_loss", "train_error", "test_error", "lowest_error"), value)
        measured |= {"epoch": 1, "clipped": 0, "seconds": 1.0, "constant_error": 0.9}
        predicted = {"directions": count, "standard_error": 0.1, "spread": spread}
        rows.append(settings | ended | measured | predicted | more)
    return Table.of(rows, made=MADE | {"scale": "laptop"})


def as_predicted(count: float) -> float:
    """Networks learn the more, the more directions pass."""
    return 2.2 / count


def judged(given: Table | None) -> Finding:
    return CLAIMS["D1"].finding({} if given is None else {"learning": given})


def test_the_claim_holds_where_the_loss_falls_with_the_directions() -> None:
    finding = judged(made_up(as_predicted))
    assert finding.verdict == HOLDS
    assert "rank correlation -1.00 over 10 networks of 64 layers" in finding.came_out
    assert "6 of 10 networks" not in finding.came_out
    assert "below half of chance are 10 of 10 networks with at least 6 directions, and 0 of 6" in finding.came_out


def test_the_claim_holds_in_part_where_few_directions_are_enough() -> None:
    assert judged(made_up(lambda count: 1.0 / count)).verdict == IN_PART


def test_the_claim_fails_where_directions_do_harm() -> None:
    assert judged(made_up(lambda count: 2.3 - 2 / count)).verdict == FAILS


def test_diverged_networks_have_the_largest_loss() -> None:
    finding = judged(made_up(lambda count: None if count < 2 else as_predicted(count)))
    assert finding.verdict == HOLDS


@pytest.mark.parametrize(
    ("given", "verdict", "why"),
    [
        (None, NOT_RUN, "Directions and learning was not run."),
        (made_up(as_predicted, data="digits"), UNDECIDED, "trained on digits, not on MNIST"),
        (made_up(as_predicted, train_examples=1000), UNDECIDED, "only 1,000 examples"),
        (made_up(as_predicted, depths=(16,)), UNDECIDED, "no 8 networks of 64 layers or more"),
        (made_up(as_predicted, spread=2.5), UNDECIDED, "no 8 networks of 64 layers or more"),
        (made_up(as_predicted, passing=np.linspace(3, 30, 10)), UNDECIDED, "too few networks beyond the limits"),
    ],
    ids=["nothing", "other data", "few examples", "shallow", "norms that are not healthy", "one side only"],
)
def test_too_little_is_undecided(given: Table | None, verdict: str, why: str) -> None:
    finding = judged(given)
    assert finding.verdict == verdict
    assert why in finding.came_out


def test_a_network_has_its_median_loss_at_the_best_rate() -> None:
    cells = learning.cells(made_up(as_predicted, depths=(64,)))
    np.testing.assert_allclose(cells["loss"], 2.2 / cells["directions"] + 0.001)
    assert set(cells["rate"]) == {0.1}


def test_networks_whose_norm_is_not_healthy_are_faint() -> None:
    (panel,) = learning.draw(made_up(as_predicted, depths=(64,), spread=2.5)).axes
    assert {container[0].get_alpha() for container in panel.containers} == {0.3}
    (page_panel,) = learning.panels(made_up(as_predicted, depths=(64,), spread=2.5))
    (trace,) = json.loads(page_panel.json)["data"]
    assert set(trace["marker"]["opacity"]) == {0.3}
    assert "1.2 ± 0.1 directions, spread 2.5<br>loss 1.834 at rate 0.1" in trace["text"][0]


@pytest.mark.parametrize("scale", FIGURE.scales)
def test_every_network_starts_from_a_random_walk_and_has_the_same_rates_at_a_depth(scale: str) -> None:
    runs = Spec.load(FIGURE.spec_text(scale)).runs()
    rates: dict[int, dict[tuple[str, str], set[float]]] = {}
    for run in runs:
        assert run.initialiser.takes_gain
        assert run.gain is None
        rates.setdefault(run.depth, {}).setdefault((run.activation, run.weights), set()).add(run.rate_in)
    for by_network in rates.values():
        assert len(set(map(frozenset, by_network.values()))) == 1


TINY = """
data = "digits"
examples = 200
epochs = 1
width = 8
depth = 4
activation = ["tanh", "leaky_relu(0.5)"]
weights = "orthogonal"
rate = [0.1, 0.01]
"""


def test_the_table_of_a_tiny_spec_has_the_predictions_of_directions(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    result = reproduce("learning", spec=tmp_path / "tiny.toml", out=tmp_path, threads=1)
    table = result.figures["learning"].table
    assert len(table.frame) == 4
    for name in ("tanh", "leaky_relu(0.5)"):
        expected = directions(name, width=8, depth=4, weights="orthogonal").backward
        np.testing.assert_allclose(table.where(activation=name)["directions"], expected)
    assert result.findings["D1"].verdict == UNDECIDED
    assert (tmp_path / "learning.png").stat().st_size > 10_000

"""The figure of directions against depth over width: sampler, literal networks and theory in one table."""

import json
from pathlib import Path

import numpy as np
import pytest
from pandas.testing import assert_frame_equal

from gradwalk.figures import FIGURES, Table, directions, table


@pytest.fixture(scope="module")
def small() -> Table:
    return directions.compute(1, names=("linear", "relu"), width=12, ratios=(1 / 4, 1, 4), networks=(60, 40))


def test_the_sampler_agrees_with_literal_networks(small: Table) -> None:
    rows = small.frame[small.frame["sampled_error"] > 1e-4]
    assert len(rows) >= 9
    errors = np.hypot(rows["sampled_error"], rows["literal_error"])
    assert (np.abs(rows["sampled"] - rows["literal"]) < 4 * errors + 0.03 * rows["literal"]).all()


def test_all_directions_pass_a_linear_orthogonal_network(small: Table) -> None:
    rows = small.where(activation="linear", weights="orthogonal")
    for name in ("theory", "sampled", "literal"):
        np.testing.assert_allclose(rows[name], 12, rtol=1e-5)  # the sampler draws in single precision


def test_the_theory_of_wide_networks_is_near_where_depth_is_small(small: Table) -> None:
    rows = small.frame[small.frame["depth"] == 3]
    assert (np.abs(rows["theory"] / rows["literal"] - 1) < 0.25).all()


def test_where_there_is_no_unbiased_gain_nothing_is_shown(monkeypatch) -> None:
    def no_gain(*_: object, **__: object) -> None:
        raise ValueError("no gain")

    monkeypatch.setattr(directions, "directions", no_gain)
    rows = directions.compute(names=("gelu",), width=8, ratios=(1,), networks=(8, 2))
    assert np.isnan(rows["sampled"]).all()


def test_it_is_drawn_from_its_csv_alone(small: Table, tmp_path: Path) -> None:
    table.write(small, tmp_path / "directions.csv")
    again = table.read(tmp_path / "directions.csv")
    assert_frame_equal(again.frame, small.frame, check_exact=True)
    figure = directions.draw(again)
    assert [panel.get_title() for panel in figure.axes] == ["linear", "ReLU"]
    assert all(len(panel.containers) == 2 for panel in figure.axes)  # the literal networks of both kinds of weights
    page = [json.loads(each.json) for each in directions.panels(again)]
    assert [len(each["data"]) for each in page] == [6, 6]
    assert "N = 12, D = 3 to 48" in directions.extent(again)
    assert dict(directions.summary(again))["linear: directions at D = N"].endswith("12.0 orthogonal")


def test_it_is_not_part_of_the_paper() -> None:
    assert not FIGURES["directions"].in_paper

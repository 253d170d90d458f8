"""Gains from tables agree with sampled walks, are there at once, and are left to the expansion where that serves."""

import json
import math
from importlib.resources import files

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.activations import Activation, activation
from gradwalk.gains import sampled
from gradwalk.gains.expansion import expanded_gain
from gradwalk.gains.tabulated import Table, tabulated_gain

TABLES = sorted((files("gradwalk.gains") / "tables").iterdir(), key=lambda file: file.name)


def named(file):
    name, _, weights = file.name.removesuffix(".json").rpartition("-")
    return name, weights


@pytest.mark.parametrize(
    ("name", "width", "depth", "weights"),
    [
        ("softplus", 14, 40, "gaussian"),
        ("softplus", 77, 300, "gaussian"),
        ("softplus", 77, 30, "orthogonal"),
        ("gelu", 23, 9, "gaussian"),
        ("gelu", 140, 25, "gaussian"),
        ("gelu", 1500, 12, "gaussian"),
        ("silu", 47, 15, "gaussian"),
        ("mish", 400, 40, "gaussian"),
        ("hard_swish", 80, 22, "gaussian"),
        ("elu", 12, 40, "gaussian"),
        ("gelu", 23, 9, "orthogonal"),
        ("gelu", 300, 40, "orthogonal"),
        ("log_sigmoid", 47, 15, "gaussian"),
        ("silu", 73, 17, "orthogonal"),
        ("mish", 30, 25, "orthogonal"),
        ("hard_swish", 150, 12, "orthogonal"),
        ("hard_tanh", 13, 40, "orthogonal"),
        ("relu6", 24, 8, "orthogonal"),
    ],
)
def test_a_gain_from_a_table_stops_the_drift_of_sampled_walks(name, width, depth, weights):
    ours = gw.solve_gain(name, width, depth, weights=weights)
    assert ours.source == "table"
    log_norms = [
        gw.simulate(name, width, depth, gain=gain, walks=2000, rng=3, weights=weights, every=depth)
        for gain in (ours.value, ours.value + 10 * ours.standard_error)
    ]
    (mean, error), (higher, _) = (sampled.mean_and_error(sampled.controlled(walks)) for walks in log_norms)
    assert abs(mean) < 4 * math.hypot(error, (higher - mean) / 10)
    assert ours.spread == pytest.approx(log_norms[0].spread, rel=0.15)


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("name", ["softplus", "gelu", "silu", "mish", "hard_swish", "log_sigmoid"])
def test_the_first_gain_needs_no_walks_from_10_to_2000_units(name, weights, monkeypatch):
    monkeypatch.setattr(sampled, "simulate", None)
    for width, depth in ((10, 1), (10, 300), (33, 7), (300, 1999), (2000, 55), (2000, 2000)):
        assert gw.solve_gain(name, width, depth, weights=weights).walks == 0


def test_beyond_the_tables_gains_are_sampled():
    assert gw.solve_gain("softplus", 9, 10).source == "walks"
    assert gw.solve_gain("softplus", 30, 10, dropout=0.1).source == "walks"
    assert gw.solve_gain("softplus(2)", 30, 10).source == "walks"
    assert gw.solve_gain("softplus", [30, 20, 10]).source == "walks"
    assert gw.solve_gain("softplus", 30, 10, walks=100).source == "walks"
    assert tabulated_gain(activation("softplus"), 2001, 10, "gaussian") is None
    assert tabulated_gain(activation("softplus"), 100, 2001, "gaussian") is None


def test_an_activation_of_the_same_name_has_no_table():
    mine = Activation("softplus", np.tanh, lambda a: 1 / np.cosh(a) ** 2)
    assert tabulated_gain(mine, 100, 10, "gaussian") is None


def test_two_activations_read_the_table_of_a_twin_which_has_their_gains():
    a = np.linspace(-5.0, 5.0, 101)
    celu, elu, ours, softplus = (activation(name).f for name in ("celu", "elu", "log_sigmoid", "softplus"))
    assert celu(a) == pytest.approx(elu(a), abs=1e-14)
    assert ours(a) == pytest.approx(-softplus(-a), abs=1e-14)
    assert gw.solve_gain("celu", 12, 40) == gw.solve_gain("elu", 12, 40)
    assert gw.solve_gain("log_sigmoid", 77, 30) == gw.solve_gain("softplus", 77, 30)


def test_where_the_expansion_is_quick_and_more_exact_it_gives_the_gain():
    assert tabulated_gain(activation("tanh"), 80, 15, "gaussian").quick
    assert gw.solve_gain("tanh", 80, 15).source == "expansion"
    assert not tabulated_gain(activation("gelu"), 1000, 2, "gaussian").quick


def test_the_gain_of_a_layer_that_has_one_is_a_factor_on_it():
    doubled = gw.solve_gain(gw.dense("gelu", gain=2.0), 50, 20)
    assert doubled.source == "table"
    assert doubled.value == pytest.approx(gw.solve_gain("gelu", 50, 20).value / 2, rel=1e-12)


@pytest.mark.parametrize("file", TABLES, ids=lambda file: file.name)
def test_a_table_holds_what_the_expansion_gives(file):
    name, weights = named(file)
    written = json.loads(file.read_text())
    assert (written["activation"], written["weights"]) == (name, weights)
    shape = len(written["widths"]), len(written["depths"])
    columns = {key: np.array(written[key], float) for key in ("log_gain", "error", "spread", "quick")}
    assert all(column.shape == shape for column in columns.values())
    assert np.nanmin(columns["error"]) >= 3e-6
    quick = np.argwhere(columns["quick"] == 1)
    for i, j in quick[:: max(len(quick) // 4, 1)]:
        ours = expanded_gain(gw.dense(name), written["widths"][i], written["depths"][j], weights)
        assert ours.log_gain == pytest.approx(columns["log_gain"][i, j], abs=1e-6)


def test_where_the_gain_jumps_no_table_is_read():
    """Between 10 and 18 units and 194 and 349 layers, elu has two unbiased gains."""
    for name, width, depth in (("elu", 13, 300), ("elu", 10, 230), ("relu6", 10, 27), ("relu6", 25, 100)):
        assert tabulated_gain(activation(name), width, depth, "gaussian") is None
    assert tabulated_gain(activation("elu"), 13, 50, "gaussian") is not None
    assert tabulated_gain(activation("relu6"), 40, 100, "gaussian") is not None


def test_between_nodes_a_table_is_exact_for_what_gains_look_like():
    widths, depths = np.array([10, 20, 40, 80, 160, 320]), np.array([1, 2, 4, 8, 16, 32, 64])
    smooth = np.add.outer(3 / np.sqrt(widths) - 2 / widths, 0.02 * np.log(depths + 3) ** 2)
    fields = {"error": np.full(smooth.shape, 0.01), "spread": np.exp(smooth), "quick": smooth > 1e9}
    found = Table(widths, depths, smooth, **fields).at(33, 11)
    expected = 3 / math.sqrt(33) - 2 / 33 + 0.02 * math.log(14) ** 2
    assert found.log_gain == pytest.approx(expected, rel=1e-12)
    assert found.spread == pytest.approx(math.exp(expected), rel=1e-12)
    assert 0.004 < found.error < 0.014
    jump = smooth + 0.1 * (depths > 8)
    assert Table(widths, depths, jump, **fields).at(33, 11) is None
    assert Table(widths, depths, jump, **fields).at(33, 3) is not None
    holed = smooth.copy()
    holed[2, 3] = math.nan
    assert Table(widths, depths, holed, **fields).at(33, 11) is None

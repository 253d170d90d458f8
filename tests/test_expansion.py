"""The expansion of the walk in 1 / width agrees with closed forms where there are any, and with sampled walks."""

import math

import numpy as np
import pytest
from scipy import special

import gradwalk as gw
from gradwalk.activations import activation
from gradwalk.gains import sampled, solve
from gradwalk.gains.expansion import expanded_gain
from gradwalk.gains.solve import default_walks, serves
from gradwalk.theory import overlap
from gradwalk.theory.chain import mean_walk, walk
from gradwalk.theory.layer import layer_row
from gradwalk.theory.stencils import derivative, interpolation, linear_interpolation
from gradwalk.theory.table import SPACING, table
from gradwalk.theory.transforms import log_moments, times


def expanded(name, width, depth, weights="gaussian", dropout=0.0):
    return expanded_gain(gw.dense(name, dropout=dropout), width, depth, weights)


@pytest.mark.parametrize("n", [10, 100, 2000])
def test_moments_of_the_logarithm_of_chi_squared_follow_from_its_transform(n):
    at = times(n)
    moments = log_moments((1 + 2 * at.t / n) ** (-n / 2), at)
    assert moments.mean == pytest.approx(special.digamma(n / 2) - math.log(n / 2), abs=1e-7)
    assert moments.variance == pytest.approx(special.polygamma(1, n / 2), abs=1e-6)
    assert moments.third == pytest.approx(special.polygamma(2, n / 2), abs=1e-5)


@pytest.mark.parametrize("name", ["tanh", "elu", "hard_tanh", "gelu*100", "sin"])
@pytest.mark.parametrize(("log_q", "dropout"), [(-3.0, 0.0), (0.0, 0.0), (1.5, 0.2)])
def test_the_step_of_a_layer_is_that_of_the_finer_quadrature(name, log_q, dropout):
    row = layer_row(activation(name), 64, dropout, "gaussian", log_q)
    exact = gw.step(name, 64, q=math.exp(log_q), dropout=dropout)
    assert row.step.mean == pytest.approx(exact.drift, abs=1e-6)
    assert row.step.variance == pytest.approx(exact.variance, abs=1e-6)


def test_the_signal_of_a_layer_has_the_moments_of_samples():
    row, count = layer_row(activation("selu"), 20, 0.0, "gaussian", 0.5), 40_000
    a = math.exp(0.25) * np.random.default_rng(0).standard_normal((count, 20))
    log_q = np.log((activation("selu").f(a) ** 2).mean(axis=1))
    deviation = math.sqrt(row.forward.variance)
    assert abs(log_q.mean() - row.forward.mean) < 4 * deviation / math.sqrt(count)
    assert log_q.var() == pytest.approx(row.forward.variance, rel=4 * math.sqrt(2 / count))
    scatter = deviation**3 * math.sqrt(15 / count)  # of a third moment
    assert abs(((log_q - log_q.mean()) ** 3).mean() - row.forward.third) < 4 * scatter


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_the_nodes_of_the_overlap_have_its_moments(weights):
    nodes = overlap.nodes(weights, 12)
    normal = np.array([1.0, 1.0, 3.0, 15.0])
    exact = normal if weights == "gaussian" else normal * overlap.sphere_factors(12)[:4]
    assert [nodes.fresh @ nodes.squares**k for k in range(4)] == pytest.approx(exact)


@pytest.mark.parametrize("name", ["relu", "leaky_relu(0.2)"])
def test_the_overlap_with_a_neutral_activation_stays_standard_normal(name):
    layer = table(activation(name), 100, 0.0, "gaussian", -8, 8)
    after = layer.kernel @ layer.fresh[0]
    assert after @ layer.squares == pytest.approx(1.0, abs=1e-4)
    assert after @ layer.squares**2 == pytest.approx(3.0, abs=0.02)
    assert np.abs(np.linalg.eigvals(layer.kernel)).max() < 1 + 1e-6


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("name", ["linear", "relu", "leaky_relu(0.2)"])
def test_the_walk_of_a_neutral_activation_is_that_of_the_closed_form(name, weights):
    exact = gw.solve_gain(name, 100, 30, weights=weights)
    layer = table(activation(name), 100, 0.0, weights, -24, 24)
    found = walk(layer, math.log(exact.value), 30)
    assert abs(found.mean) < 30 * 3e-5
    assert found.mean == pytest.approx(mean_walk(layer, math.log(exact.value), 30), abs=1e-6)
    assert found.spread == pytest.approx(exact.spread, rel=0.02, abs=0.02)


@pytest.mark.parametrize(
    ("name", "width", "depth", "weights", "dropout"),
    [
        ("tanh", 10, 30, "gaussian", 0.0),
        ("tanh", 30, 100, "gaussian", 0.0),
        ("tanh", 16, 40, "orthogonal", 0.0),
        ("elu", 30, 60, "gaussian", 0.0),
        ("elu", 30, 60, "orthogonal", 0.0),
        ("selu", 24, 40, "gaussian", 0.0),
        ("sigmoid", 50, 30, "gaussian", 0.0),
        ("hard_tanh", 40, 40, "orthogonal", 0.0),
        ("softsign", 20, 40, "gaussian", 0.0),
        ("tanh", 40, 30, "gaussian", 0.3),
    ],
)
def test_the_expanded_gain_stops_the_drift_of_sampled_walks(name, width, depth, weights, dropout):
    ours = expanded(name, width, depth, weights, dropout)
    block = gw.dense(name, gain=math.exp(ours.log_gain), dropout=dropout)
    walks = gw.simulate(block, width, depth, walks=1000, rng=3, weights=weights, every=depth)
    assert abs(walks.mean) < 4 * walks.standard_error + ours.error
    assert ours.spread == pytest.approx(walks.spread, rel=4 / math.sqrt(2000) + 0.05)


def test_the_first_layer_is_standard_normal_also_with_orthogonal_weights():
    """With one layer the overlap is fresh, and the step of the finer quadrature is exact: third order is left out."""
    layer = table(activation("tanh"), 40, 0.0, "orthogonal", -12, 6)
    exact = gw.step("tanh", 40, q=1.0, weights="orthogonal")
    assert mean_walk(layer, 0.0, 1) == pytest.approx(exact.drift / 2, abs=40**-3)
    assert walk(layer, 0.0, 1).spread == pytest.approx(math.sqrt(exact.variance) / 2, rel=0.01)


def test_the_slope_is_the_response_of_the_walk_to_the_gain():
    ours = expanded("tanh", 40, 50)
    layer = table(activation("tanh"), 40, 0.0, "gaussian", -12, 6)
    means = [mean_walk(layer, ours.log_gain + shift, 50) for shift in (-1e-3, 1e-3)]
    assert means[0] == pytest.approx(-means[1], rel=0.01)
    assert (means[1] - means[0]) / 2e-3 == pytest.approx(ours.slope, rel=0.01)


def test_gains_of_tens_of_thousands_of_layers_are_smooth_in_depth_and_need_no_walks(monkeypatch):
    monkeypatch.setattr(sampled, "simulate", None)
    for weights in ("gaussian", "orthogonal"):
        estimates = [gw.solve_gain("tanh", 64, 1000 * 10**k, weights=weights) for k in range(3)]
        assert all(estimate.walks == 0 for estimate in estimates)
        excess = np.array([estimate.value for estimate in estimates]) - (1.141 if weights == "gaussian" else 1.0)
        assert (excess > 0).all()
        assert (np.diff(np.log(excess)) < -0.9).all()


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_one_layer_needs_no_walks_although_the_first_step_to_the_root_hits_it(weights, monkeypatch):
    monkeypatch.setattr(sampled, "simulate", None)
    exact = gw.step("tanh", 341, q=1.0, weights=weights)
    ours = gw.solve_gain("tanh", 341, 1, weights=weights)
    assert math.log(ours.value) == pytest.approx(-exact.drift / 2, abs=1e-5)


@pytest.mark.parametrize(("width", "depth"), [(341, 108), (2000, 60), (2000, 108)])
def test_an_expansion_that_diverges_has_no_root(width, depth):
    assert expanded("hard_swish", width, depth) is None


@pytest.mark.parametrize(
    ("name", "width", "depth", "weights"),
    [("gelu", 345, 28, "orthogonal"), ("gelu*1.01", 345, 26, "gaussian"), ("gelu*1.01", 345, 27, "gaussian")],
)
def test_an_expansion_whose_overlaps_diverge_does_not_serve(name, width, depth, weights):
    """Of these, terms of either sign cancelled in the error, or made it negative, which passed for small."""
    ours = expanded(name, width, depth, weights)
    assert ours is None or not serves(ours, weights, default_walks((width,) * (depth + 1)))


def test_a_network_too_large_to_sample_gets_no_gain_from_an_expansion_that_diverges(monkeypatch):
    monkeypatch.setattr(solve, "_MOST_UNITS", 0)
    assert gw.solve_gain("tanh", 345, 29).source == "expansion"
    with pytest.raises(ValueError, match=r"take long to sample; pass walks=8 or more"):
        gw.solve_gain("gelu*1.01", 345, 26)


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_what_the_expansion_leaves_out_is_positive(weights):
    for width, depth in ((128, 1000), (300, 100), (2000, 2000)):
        assert expanded("hard_tanh", width, depth, weights).error > 0


def test_no_gain_of_the_expansion_is_said_to_be_better_than_its_grid():
    for shape in ((2000, 1), (2000, 2000), (345, 28)):
        estimate = gw.solve_gain("tanh", *shape)
        assert estimate.source in ("expansion", "table")
        assert estimate.standard_error >= 2.9e-6 * estimate.value


def test_a_spread_beyond_floating_point_is_no_error():
    assert expanded("softplus", 615, 1125, "orthogonal") is None


def test_max_depth_and_min_width_need_no_walks(monkeypatch):
    monkeypatch.setattr(sampled, "simulate", None)
    depth = gw.max_depth("tanh", 1000)
    assert gw.solve_gain("tanh", 1000, depth).spread == pytest.approx(2.0, rel=0.02)
    width = gw.min_width("elu", 500, 1.0)
    assert gw.solve_gain("elu", width, 500).spread == pytest.approx(1.0, rel=0.02)
    assert gw.max_depth("tanh", 64, weights="orthogonal") == math.inf


def test_walks_are_sampled_where_the_expansion_is_not_accurate_enough():
    assert expanded("tanh", 9, 10) is None
    assert gw.solve_gain("tanh", 9, 10).walks > 0
    assert gw.solve_gain("softplus(2)", 30, 10).walks > 0
    assert gw.solve_gain("tanh", [30, 20, 10]).walks > 0
    assert gw.solve_gain("tanh", 30, 10).walks == 0


def test_the_error_of_the_expansion_is_reported_honestly():
    """At width 10 the error is large enough to be seen; it is at most twice what is reported."""
    for name in ("tanh", "selu", "softsign"):
        estimate, ours = gw.solve_gain(name, 10, 20, walks=4000, seed=5), expanded(name, 10, 20)
        error = math.exp(ours.log_gain) - estimate.value
        reported = estimate.value * ours.error / ours.slope
        assert abs(error) < 3 * estimate.standard_error + 2 * reported


def test_the_gain_of_a_layer_that_has_one_is_a_factor_on_it():
    assert gw.gain(gw.dense("tanh", gain=2.0), 30, 20) == pytest.approx(gw.gain("tanh", 30, 20) / 2, rel=1e-12)


def test_interpolation_and_derivatives_are_exact_for_quintics():
    grid, between = np.arange(12.0), np.array([0.0, 0.3, 4.5, 10.9, 11.0])
    polynomial = np.polynomial.Polynomial([1.0, -2.0, 0.5, 0.3, -0.02, 0.001])
    assert interpolation(between, 12) @ polynomial(grid) == pytest.approx(polynomial(between))
    assert derivative(12) @ polynomial(grid) == pytest.approx(polynomial.deriv()(grid), abs=1e-9)
    line = np.polynomial.Polynomial([1.0, -2.0])
    assert linear_interpolation(between, 12) @ line(grid) == pytest.approx(line(between))
    assert linear_interpolation(between, 12).min() == 0
    assert SPACING <= 0.5  # coarser grids cost digits: see _GRID_ERROR

"""Angles in the limit of infinite width, against closed forms, samples and other quadrature."""

import math

import numpy as np
import pytest
from scipy import integrate

import gradwalk as gw
from gradwalk import theory


@pytest.mark.parametrize("c", [-0.9, -0.2, 0.0, 0.5, 0.99, 1.0])
def test_the_correlation_map_has_its_closed_forms(c):
    relu = (math.sqrt(1 - c**2) + (math.pi - math.acos(c)) * c) / math.pi  # the arc-cosine kernel
    assert theory.correlation_map("relu", c, q=3.0) == pytest.approx(relu, abs=1e-9)
    erf = math.asin(c * 2 * 0.7 / (1 + 2 * 0.7)) / math.asin(2 * 0.7 / (1 + 2 * 0.7))  # Williams
    assert theory.correlation_map("erf", c, q=0.7) == pytest.approx(erf, abs=1e-9)


def test_the_correlation_map_agrees_with_another_quadrature():
    c, q = 0.6, 1.7

    def product(y, x):
        density = math.exp(-(x * x + y * y) / 2) / (2 * math.pi)
        return math.tanh(math.sqrt(q) * x) * math.tanh(math.sqrt(q) * (c * x + math.sqrt(1 - c * c) * y)) * density

    expected = integrate.dblquad(product, -8, 8, -8, 8, epsabs=1e-9)[0] / gw.q_map("tanh", q)
    assert theory.correlation_map("tanh", c, q) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("name", ["tanh", "gelu", "selu", "leaky_relu(0.3)"])
def test_chi_1_is_the_slope_of_the_map_at_1(name):
    slope = (1 - theory.correlation_map(name, 1 - 1e-5, 0.8)) / 1e-5
    assert slope == pytest.approx(theory.correlation_slope(name, 0.8), rel=5e-3)


def test_the_fixed_point_is_where_correlations_end():
    q = gw.fixed_point("selu", 1.3)
    end = theory.correlation_fixed_point("selu", q)
    assert 0 < end < 1
    assert theory.correlation_map("selu", end, q) == pytest.approx(end, abs=1e-7)
    for c in (end - 0.05, end + 0.05):
        assert abs(theory.correlation_map("selu", c, q) - end) < abs(c - end)


def test_a_fixed_point_next_to_1_is_1():
    q = 16.783055084670117  # found by stress/fuzz.py
    slope = theory.correlation_slope("gelu*100", q)
    assert 1 + 1e-9 < slope < 1 + 1e-3  # inputs part, by so little that nothing below 0.9999 is a fixed point
    assert theory.correlation_map("gelu*100", 0.9999, q) > 0.9999
    assert theory.correlation_fixed_point("gelu*100", q) == 1.0


def test_the_map_is_that_of_wide_sampled_networks():
    pairs = gw.simulate("gelu", 3000, 1, gain=1.0, walks=200, rng=1, pair="inputs").pair
    expected = theory.correlation_map("gelu", 0.0, 1.0)
    found = pairs.signal_cosine[:, 0]
    assert abs(found.mean() - expected) < 4 * found.std() / math.sqrt(200) + 1e-3


@pytest.mark.parametrize(
    ("name", "weights"), [("linear", "gaussian"), ("tanh", "orthogonal"), ("leaky_relu(0.5)", "orthogonal")]
)
def test_wide_networks_pass_the_directions_of_the_limit(name, weights):
    found = gw.directions(name, 200, 1, weights=weights, gain=1.0, networks=30)
    expected = theory.wide_directions(name, 200, 1, weights=weights)
    assert found.backward == pytest.approx(expected, rel=0.03)


def test_the_share_that_is_not_linear_is_that_of_a_regression():
    a = np.random.default_rng(1).standard_normal(400_000) * math.sqrt(2.0)
    f = gw.activation("gelu").f(a)
    assert theory.nonlinearity("gelu", 2.0) == pytest.approx(1 - np.corrcoef(a, f)[0, 1] ** 2, abs=2e-3)


def test_a_correlation_beyond_1_is_reported():
    with pytest.raises(ValueError, match="correlation_map: correlation must lie between -1 and 1"):
        theory.correlation_map("relu", 1.5)

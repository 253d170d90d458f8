"""The paper's learning rates over depth."""

import math

import numpy as np
import pytest

from gradwalk.train import depth_rates


def test_they_are_the_papers_equations():
    depth, deepest, rate_in, rate_out = 5, 9, 1e-4, 3e-2
    tau = (deepest - 1) / (math.log(rate_out) - math.log(rate_in))  # eq. 19
    alpha = math.exp(math.log(rate_in) + deepest / tau)  # eq. 20
    gamma = {d: alpha * math.exp(-(deepest - d + 1) / tau) for d in range(1, deepest + 1)}  # eq. 21
    expected = [gamma[deepest - d] for d in reversed(range(depth))]  # eq. 22: lambda_{D-d}
    assert depth_rates(depth, rate_in, rate_out, deepest) == pytest.approx(expected, rel=1e-12)


def test_the_deepest_network_goes_from_rate_in_to_rate_out_by_a_constant_factor():
    rates = depth_rates(40, 1e-5, 1e-1)
    assert rates[[0, -1]] == pytest.approx([1e-5, 1e-1], rel=1e-12)
    assert np.diff(np.log(rates)) == pytest.approx(np.log(1e4) / 39, rel=1e-9)


def test_a_shallower_network_has_the_rates_of_the_last_layers_of_the_deepest():
    assert depth_rates(4, 1e-5, 1e-1, 40) == pytest.approx(depth_rates(40, 1e-5, 1e-1)[-4:], rel=1e-12)


def test_equal_rates_are_the_constant_case():
    assert depth_rates(7, 0.02, 0.02, 100) == pytest.approx(np.full(7, 0.02), rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((1, 0.1, 0.1), "depth must be at least 2, got depth=1"),
        ((4, 0.0, 0.1), "rate_in must be positive and finite, got rate_in=0.0"),
        ((4, 0.1, math.inf), "rate_out must be positive and finite"),
        ((4, 0.1, 0.1, 3), "deepest must be at least 4, got deepest=3"),
    ],
)
def test_bad_input_is_refused(arguments, said):
    with pytest.raises(ValueError, match=f"depth_rates: {said}"):
        depth_rates(*arguments)

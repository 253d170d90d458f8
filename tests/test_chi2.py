"""Mean and variance of the logarithm of chi-squared are those of mpmath."""

import mpmath
import numpy as np
import pytest

from gradwalk.theory.chi2 import log_chi2, log_chi2_of


@pytest.mark.parametrize("freedom", [*range(1, 40), 63, 100, 1001, 10**6, 10**9])
def test_the_logarithm_of_chi_squared(freedom):
    mean, variance = log_chi2_of(freedom)
    half = mpmath.mpf(freedom) / 2
    assert mean == pytest.approx(float(mpmath.digamma(half) + mpmath.log(2)), rel=1e-14, abs=2e-15)
    assert variance == pytest.approx(float(mpmath.polygamma(1, half)), rel=2e-15)


def test_many_at_once_are_the_same_as_one_by_one():
    freedom = np.array([1, 2, 31, 32, 33, 500])
    together = np.array(log_chi2(freedom)).T
    assert together.tolist() == [list(log_chi2_of(int(k))) for k in freedom]

"""Samples that should have one law, and activations that are sampled with vectors."""

import math

import numpy as np
import pytest
from scipy import stats

import gradwalk as gw


def with_vectors(name):
    """Return the activation with another kink, which keeps a neutral one from being sampled without vectors."""
    f = gw.activation(name)
    return gw.Activation(f.name, f.f, f.derivative, (*f.kinks, 1.0))


def assert_same_law(left, right, level=0.01):
    """Assert that two samples agree by the Kolmogorov-Smirnov test and in their first two moments."""
    if max(left.std(), right.std()) < 1e-5:  # no walk at all, up to rounding
        assert left.mean() == pytest.approx(right.mean(), abs=1e-5)
        return
    assert stats.ks_2samp(left, right).pvalue > level
    error = math.hypot(left.std() / math.sqrt(len(left)), right.std() / math.sqrt(len(right)))
    assert abs(left.mean() - right.mean()) < 4 * error
    spread = math.hypot(*(math.sqrt(np.var((sample - sample.mean()) ** 2) / len(sample)) for sample in (left, right)))
    assert abs(left.var() - right.var()) < 4 * spread

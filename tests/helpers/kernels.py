"""Kernels as JAX and Keras shape them: (in, out) and (kernel..., in, out)."""

import math

import numpy as np
import pytest

import gradwalk


def fan_in(shape):
    """Return the number of inputs that an output unit sums."""
    return math.prod(shape[:-1])


def assert_relu_kernel(kernel):
    """Check that a kernel has the variance of a layer that reads a relu."""
    values = np.asarray(kernel, dtype=float)
    n = fan_in(values.shape)
    assert np.mean(values**2) * n == pytest.approx(gradwalk.gain("relu", n) ** 2, rel=4 * math.sqrt(2 / values.size))

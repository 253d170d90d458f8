"""The sampler at its limits: scales beyond floating point, vectors that nearly cancel, any arguments, and memory."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from helpers.laws import assert_same_law, with_vectors
from helpers.literal_pairs import literal_pairs
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import gradwalk as gw
from gradwalk.simulation import memory
from gradwalk.simulation.exact import Scalars
from gradwalk.simulation.signal import respond


@pytest.mark.parametrize(("name", "gain"), [("relu", 1e-8), ("linear", 1e8)])
@pytest.mark.parametrize("form", [gw.activation, with_vectors])
def test_nothing_overflows_or_underflows_at_log_norms_of_30_000(form, name, gain):
    depth, step = 1700, gw.step(name, 5)
    walks = gw.simulate(form(name), 5, depth, gain=gain, walks=4, rng=1, every=100)
    expected = depth * (step.drift / 2 + math.log(gain))
    assert abs(expected) > 30_000
    assert abs(walks.mean - expected) < 4 * math.sqrt(depth * step.variance) / 2 / 2
    assert np.isfinite(walks.log_variance).all()


def test_saturated_layers_do_not_underflow():
    walks = gw.simulate("tanh", 2, 50, gain=30.0, walks=200, rng=1)
    assert np.isfinite(walks.log_norm).all()
    dense = gw.simulate("tanh", 2, 50, gain=30.0, walks=200, rng=2, method="dense")
    assert_same_law(walks.final, dense.final)


WITH_SLOPE = [name for name in gw.activations.names() if gw.activation(name).slope_given is not None]


@pytest.mark.parametrize("name", [*WITH_SLOPE, "elu(0.3)", "softplus(4)", "celu(2)", "silu*3"])
def test_the_slope_given_the_output_is_the_derivative(name):
    assert {"tanh", "gelu", "silu", "elu"} <= set(WITH_SLOPE)
    f, a = gw.activation(name), np.linspace(-6, 6, 121)  # 0 included
    np.testing.assert_allclose(f.slope_given(a, f.f(a)), f.derivative(a), atol=1e-12)


@pytest.mark.parametrize("log_scale", [-20.0, 0.0, 2.0, 4.0, 7.0])
@pytest.mark.parametrize("name", [*WITH_SLOPE, "tanh@0.97", "silu*100"])
def test_slopes_are_right_in_single_precision_at_any_scale(name, log_scale):
    x = np.random.default_rng(1).standard_normal((50, 40)).astype(np.float32)
    response = respond(gw.activation(name), x, np.full(50, log_scale))
    right = gw.activation(name).derivative(math.exp(log_scale) * x.astype(np.float64))
    slope = response.slope * np.exp(response.log_slope)[:, None]
    error = np.linalg.norm(slope - right, axis=1) / np.linalg.norm(right, axis=1)
    assert error.max() < 1e-4  # of the largest a, 4,000, whose rounding errors the slope magnifies
    assert log_scale > 0 or error.max() < 1e-6


@pytest.mark.parametrize("active", [1, 2, 3, 40])
def test_scalar_products_stand_for_vectors_even_where_these_cancel(active):
    """The gradient below a layer with few active units, from scalar products and from vectors in double precision."""
    rng = np.random.default_rng(active)
    x, noise = (rng.standard_normal(shape).astype(np.float32) for shape in ((500, 40), (1, 500, 40)))
    slope = (np.arange(40) < active).astype(np.float32) * np.ones_like(x)
    h = np.maximum(x, 0.1) * slope
    scalars = Scalars.of(x, h, slope, noise)
    scalars.refine(x, h, slope, noise)
    overlap = 1e-3 * rng.standard_normal(500)
    share = overlap / np.sqrt(scalars.h) - scalars.inside[0] / scalars.h
    squared = share**2 * scalars.passed[0, 0] + 2 * share * scalars.passed[0, 1] + scalars.passed[1, 1]
    x, h, slope, xi = (vector.astype(np.float64) for vector in (x, h, slope, noise[0]))
    unit = h / np.linalg.norm(h, axis=1)[:, None]
    delta = slope * (unit * (overlap - (unit * xi).sum(axis=1))[:, None] + xi)
    np.testing.assert_allclose(squared, (delta**2).sum(axis=1), rtol=1e-4, atol=1e-18)
    np.testing.assert_allclose(
        share * scalars.overlap[0] + scalars.overlap[1], (x * delta).sum(axis=1), rtol=1e-4, atol=2e-5
    )


MEMORY = """
import re
import numpy as np
import gradwalk as gw

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])

relu = gw.Activation("relu", lambda a: np.maximum(a, 0), lambda a: (a > 0).astype(a.dtype), (0.0, 1.0))
gw.simulate("linear", 3, 2, gain=1.0, walks=1, rng=1)  # loads what is loaded at the first call
print(peak())
gw.simulate("linear", 3, 1000, gain=1.0, walks=2750, rng=1)  # a result of 44 MB
print(peak())
gw.simulate(relu, 200_000, 55, gain=1.41, walks=4, rng=1)  # segments, in all threads
gw.simulate(relu, 4_000_000, 3, gain=1.41, walks=2, rng=1)  # layers so large that there is one thread
gw.simulate("relu", 1200, 13, gain=1.41, walks=1, rng=1, method="dense")  # segments of matrices
print(peak())
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="peak memory is read from /proc")
def test_memory_stays_under_a_gigabyte():
    """Measured in a separate process; getrusage would also count what its parent held when it was forked."""
    result = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    start, with_result, with_layers = (1024 * int(line) for line in result.stdout.split())
    cells = 2750 * 1001
    per_cell = (with_result - start - 8e6) / cells  # less what threads and blocks need at any size
    assert start + 8e6 + max(per_cell, 16) * memory.RESULT_CELLS < 1e9
    assert per_cell < 20  # 16 bytes of the result, and no copy of it
    assert 2e8 < with_layers < 1e9  # at least the vectors of a layer of 4,000,000 units, or nothing was measured


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(["linear", "relu", "leaky_relu(0.1)", "tanh", "gelu", "softplus", "hard_tanh", "sin", "selu"]),
    widths=st.lists(st.integers(1, 40), min_size=2, max_size=12),
    log_gain=st.floats(-3, 3),
    weights=st.sampled_from(["gaussian", "orthogonal"]),
    method=st.sampled_from(["exact", "dense"]),
)
def test_walks_are_finite_for_all_arguments(name, widths, log_gain, weights, method):
    assume(name != "hard_tanh" or weights == "gaussian" or 1 not in widths)  # see the next test
    walks = gw.simulate(name, widths, gain=math.exp(log_gain), walks=3, rng=1, weights=weights, method=method)
    assert walks.log_norm.shape == (3, len(widths))
    assert np.isfinite(walks.log_norm).all()


def test_a_signal_that_is_too_small_to_matter_is_that_of_f_at_zero():
    """Single units of softplus come down to 1e-25 and less, from where the next layer reads f(0) = ln 2."""
    walks = gw.simulate("softplus", [1, 19, 1, 1, 1], gain=3.0, walks=4000, rng=1)
    assert walks.log_variance.min() < 2 * math.log(1e-25)
    assert_same_law(walks.final, literal_pairs("softplus", [1, 19, 1, 1, 1], 3.0, 4000, 2).first)


@pytest.mark.parametrize("method", ["exact", "dense"])
def test_a_layer_that_cannot_be_active_is_reported(method):
    """With one unit and orthogonal weights |a| can only grow, until hard_tanh saturates."""
    with pytest.raises(ValueError, match="simulate: hard_tanh passes no signal or no gradient here"):
        gw.simulate("hard_tanh", 1, 30, gain=2.0, walks=3, rng=1, weights="orthogonal", method=method)

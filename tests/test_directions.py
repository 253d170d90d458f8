"""How many directions pass: the sampler against singular values of literal products, and the record of it."""

import itertools
import math

import numpy as np
import pytest
from helpers.literal_pairs import matrices

import gradwalk as gw
from gradwalk.gains import backward_directions
from gradwalk.simulation import jacobian_singular_values, participation_ratio
from gradwalk.simulation.participation import participation


def literal_ratios(name, width, depth, gain, count, seed, weights="gaussian", of_a=True):
    """Return the participation ratio of the squared singular values of each of that many literal Jacobians.

    They are taken with respect to a_0 or, if not `of_a`, to h_0 = f(a_0).
    """
    return literal_ratios_of_widths(name, [width] * (depth + 1), gain, count, seed, weights, of_a)


def literal_ratios_of_widths(name, widths, gain, count, seed, weights, of_a=True):
    """Return the same for layers of these widths."""
    f, rng = gw.activation(name), np.random.default_rng(seed)
    a, jacobian = (
        rng.standard_normal((count, widths[0], 1)),
        np.broadcast_to(np.eye(widths[0]), (count, *widths[:1] * 2)),
    )
    for layer, (n, out) in enumerate(itertools.pairwise(widths)):
        drawn = gain * matrices(rng, count, out, n, weights)
        jacobian = drawn @ (f.derivative(a) * jacobian if layer or of_a else jacobian)
        largest = np.abs(jacobian).max(axis=(1, 2), keepdims=True)
        jacobian = jacobian / np.where(largest > 0, largest, 1.0)
        a = drawn @ f.f(a)
    squares = np.linalg.svd(jacobian, compute_uv=False) ** 2
    squares = squares[squares.any(axis=1)]  # networks through which nothing passes are not sampled
    return squares.sum(axis=1) ** 2 / (squares**2).sum(axis=1)


def assert_agrees(found, literal, bias=0.03):
    error = math.hypot(found.standard_error, literal.std() / math.sqrt(len(literal)))
    assert abs(found.backward - literal.mean()) < 3 * error + bias * literal.mean()


@pytest.mark.parametrize("ratio", [1 / 8, 1 / 2, 1, 2, 8])
def test_linear_nets_pass_as_many_directions_as_the_singular_values_of_literal_products(ratio):
    width = 24
    depth = int(width * ratio)
    found = gw.directions("linear", width, depth, networks=120)
    assert_agrees(found, literal_ratios("linear", width, depth, 1.0, 120, seed=1))


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("name", ["relu", "tanh", "gelu@0.8"])
def test_nonlinear_nets_pass_as_many_directions_as_literal_ones(name, weights):
    found = gw.directions(name, 24, 12, weights=weights, gain=1.2, networks=100)
    assert_agrees(found, literal_ratios(name, 24, 12, 1.2, 100, seed=2, weights=weights))


@pytest.mark.parametrize(
    ("width", "depth", "passing"), [(64, 16, 5.0), (64, 64, 1.9), (64, 256, 1.2), (249, 1000, 1.3)]
)
def test_angles_of_gaussian_tanh_nets_are_those_of_the_design(width, depth, passing):
    """DESIGN section 6 has 1 / <cos^2>, at the gain of the paper's network, to two digits."""
    walks = min(400, 60_000 // depth)
    pair = gw.simulate("tanh", width, depth, gain=1.05, walks=walks, rng=1, pair="gradients", every=depth).pair
    squared = pair.cosine[:, -1] ** 2
    error = squared.std() / math.sqrt(walks) / squared.mean() ** 2
    assert abs(1 / squared.mean() - passing) < 3 * error + 0.05


@pytest.mark.parametrize(
    ("name", "weights", "depth", "passing"),
    [
        ("tanh", "gaussian", 32, 2.3),
        ("tanh", "gaussian", 64, 1.5),
        ("tanh", "gaussian", 128, 1.1),
        ("tanh", "orthogonal", 32, 28.0),
        ("tanh", "orthogonal", 128, 17.0),
        ("relu", "gaussian", 32, 1.3),
        ("relu", "orthogonal", 32, 2.1),
    ],
)
def test_singular_values_are_those_of_the_design(name, weights, depth, passing):
    """DESIGN section 6 has four networks each, and Jacobians with respect to h_0 where ours are with respect to a_0."""
    of_h, of_a = (
        literal_ratios(name, 64, depth, 1.05, 8, seed=5, weights=weights, of_a=each) for each in (False, True)
    )
    error = of_h.std(ddof=1) * math.hypot(1 / math.sqrt(8), 1 / math.sqrt(4))
    assert abs(of_h.mean() - passing) < 3 * error
    assert_agrees(gw.directions(name, 64, depth, weights=weights, gain=1.05, networks=32), of_a)


def test_a_frame_of_all_directions_has_the_exact_ratio():
    values = np.random.default_rng(3).standard_normal((5, 6, 6))
    products = values @ values.transpose(0, 2, 1)
    traces = np.trace(products, axis1=1, axis2=2), np.trace(products @ products, axis1=1, axis2=2)
    np.testing.assert_allclose(participation(products, 6), traces[0] ** 2 / traces[1])


def test_some_directions_estimate_the_ratio_of_all_without_bias():
    rng = np.random.default_rng(4)
    shares = 0.8 ** np.arange(40)
    frames = np.linalg.qr(rng.standard_normal((3000, 40, 12)))[0]
    estimates = participation(frames.transpose(0, 2, 1) @ (shares[:, None] * frames), 40)
    exact = shares.sum() ** 2 / (shares**2).sum()
    assert abs(estimates.mean() - exact) < 0.02 * exact


def test_inputs_stay_apart_in_a_linear_orthogonal_net_and_merge_in_a_relu_net():
    linear = gw.directions("linear", 30, 40, weights="orthogonal", networks=60)
    assert linear.backward == pytest.approx(30)
    assert abs(linear.forward - 30) < 4 * linear.forward_error
    assert gw.directions("relu", 30, 40, networks=20).forward < 1.05


@pytest.mark.parametrize("width", [4, 8, 16, 17])
def test_all_directions_pass_narrow_orthogonal_linear_nets(width):
    found = gw.directions("linear", width, 5, weights="orthogonal", networks=20)
    assert found.backward == pytest.approx(width, rel=1e-6)


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize(
    "widths", [[12] * 9, [30, 20, 12, 30, 20], [8, 24, 24, 10], [20, 3, 20, 20], [40, 5, 40, 40, 5, 40], [6, 30, 30]]
)
def test_narrow_nets_and_unequal_widths_pass_as_many_as_literal_ones(widths, weights):
    found = gw.directions("leaky_relu(0.7)", widths, weights=weights, gain=1.0, networks=400)
    assert_agrees(found, literal_ratios_of_widths("leaky_relu(0.7)", widths, 1.0, 400, 5, weights))


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_gradients_that_fill_a_layer_pass_relu_without_bias(weights):
    """Half of the units are inactive: which gradients span the others is another matter in each network."""
    mean, standard_error = backward_directions(gw.activation("relu"), (12,) * 9, weights, 1.2, 1500, 0)
    literal = literal_ratios("relu", 12, 8, 1.2, 1500, seed=6, weights=weights)
    assert abs(mean - literal.mean()) < 3 * math.hypot(standard_error, literal.std() / math.sqrt(len(literal)))


def test_the_library_has_the_singular_values_of_literal_networks():
    logs = jacobian_singular_values("tanh", 10, 6, gain=1.3, networks=400, rng=7, weights="orthogonal")
    ratios, expected = participation_ratio(logs), literal_ratios("tanh", 10, 6, 1.3, 400, seed=8, weights="orthogonal")
    error = math.hypot(ratios.std(), expected.std()) / math.sqrt(400)
    assert abs(ratios.mean() - expected.mean()) < 4 * error
    walks = gw.simulate("linear", 10, 6, gain=1.3, walks=4000, rng=1, every=6)
    linear = jacobian_singular_values("linear", 10, 6, gain=1.3, networks=2000, rng=2)
    squared = np.exp(2 * walks.log_norm[:, -1])  # its mean is that of the squared singular values
    error = math.hypot(squared.std() / math.sqrt(4000), np.exp(2 * linear).mean(axis=1).std() / math.sqrt(2000))
    assert abs(squared.mean() - np.exp(2 * linear).mean()) < 4 * error
    with pytest.raises(ValueError, match=r"^jacobian_singular_values: the signal or the gradient of relu vanishes"):
        jacobian_singular_values("relu", 1, 50, gain=1.0, networks=5, rng=0)


def test_unequal_widths_pass_no_more_than_the_narrowest_layer():
    found = gw.directions("linear", [30, 20, 6, 30, 40], weights="orthogonal", networks=30)
    assert 1 < found.backward < 6
    assert found.units == 6
    assert found.width == (30, 20, 6, 30, 40)


def test_the_record_reads_well():
    found = gw.directions("tanh", 10, 8, networks=8)
    assert repr(found).startswith("Directions(tanh, depth 8, gaussian: ")
    assert "<td>directions that pass backward</td>" in found._repr_html_()
    assert gw.directions("tanh", 10, 8, networks=8) == found
    assert gw.directions("tanh", 10, 8, networks=8, gain=[1.2] * 8).gain == (1.2,) * 8


def test_depth_and_width_for_a_number_of_directions():
    depth = gw.max_depth("relu", 24, spread=10.0, directions=2.0)
    assert gw.directions("relu", 24, depth).backward == pytest.approx(2.0, abs=0.4)
    assert gw.max_depth("relu", 24, spread=0.3, directions=2.0) == gw.max_depth("relu", 24, spread=0.3)
    width = gw.min_width("linear", 12, spread=10.0, directions=3.0)
    assert gw.directions("linear", width, 12).backward == pytest.approx(3.0, abs=0.6)
    assert gw.max_depth("relu", 24, directions=20.0) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gw.directions("relu", 2, 5), "directions: every layer must have at least 3 units, got a layer of 2"),
        (lambda: gw.directions("relu", 9, 5, networks=3), "directions: networks must be at least 8"),
        (lambda: gw.directions("relu", 9, 5, weights="haar"), "directions: weights must be"),
        (lambda: gw.max_depth("relu", 9, directions=1.0), "max_depth: directions must be more than 1"),
        (
            lambda: gw.min_width("relu", 9, directions=2.0, dropout=0.1),
            "min_width: directions are not known with dropout",
        ),
    ],
)
def test_invalid_input_is_reported(call, message):
    with pytest.raises(ValueError, match=message):
        call()

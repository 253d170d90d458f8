"""Pairs of gradients have the law of literal networks, at one input and at two: norms and angles."""

import math

import numpy as np
import pytest
from helpers.literal_pairs import literal_pairs
from scipy import special, stats

import gradwalk as gw
from gradwalk.simulation.normals import Span, orthonormalise

SHAPES = {"square": (8,) * 7, "unequal": (7, 20, 5, 12, 30, 4)}


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("kind", ["gradients", "inputs"])
@pytest.mark.parametrize("name", ["linear", "relu", "tanh", "gelu"])
@pytest.mark.parametrize("shape", SHAPES)
def test_norms_and_angles_have_the_law_of_literal_networks(name, kind, weights, shape):
    widths, inputs = SHAPES[shape], 1 if kind == "gradients" else 2
    literal = literal_pairs(name, widths, 1.3, 1000, 21, weights, inputs)
    walks = gw.simulate(name, widths, gain=1.3, walks=4000, rng=5, weights=weights, pair=kind)
    assert_one_law(walks.final, literal.first)
    assert_one_law(walks.pair.log_norm[:, -1], literal.second)
    assert_one_law(walks.pair.cosine[:, -1], literal.cosine)
    assert_one_law(walks.final * walks.pair.cosine[:, -1], literal.first * literal.cosine)
    assert_one_law(walks.pair.signal_cosine[:, 0], literal.signal_cosine)


def assert_one_law(left, right):
    if max(left.std(), right.std()) < 1e-5:  # no walk at all, up to rounding
        assert left.mean() == pytest.approx(right.mean(), abs=1e-5)
    else:
        assert stats.ks_2samp(left, right).pvalue > 0.01


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("kind", ["gradients", "inputs"])
@pytest.mark.parametrize("name", ["relu", "tanh"])
def test_each_gradient_of_a_pair_walks_as_a_single_one(name, kind, weights):
    single = gw.simulate(name, 20, 30, gain=1.3, walks=2000, rng=11, weights=weights)
    pair = gw.simulate(name, 20, 30, gain=1.3, walks=2000, rng=12, weights=weights, pair=kind)
    for final in (pair.final, pair.pair.log_norm[:, -1]):
        assert stats.ks_2samp(single.final, final).pvalue > 0.01
    for variance in (pair.log_variance[:, 0], pair.pair.log_variance[:, 0]):
        assert stats.ks_2samp(single.log_variance[:, 0], variance).pvalue > 0.01


def test_the_sine_drifts_as_theory_says_however_small_it_becomes():
    n, depth = 12, 4000
    walks = gw.simulate("linear", n, depth, gain=1.0, walks=60, rng=3, pair="gradients", every=depth)
    moved = 2 * (walks.pair.log_sine[:, -1] - walks.pair.log_sine[:, 0])
    drift = special.digamma((n - 1) / 2) - special.digamma(n / 2)
    assert walks.pair.log_sine[:, -1].max() < -50
    assert abs(moved.mean() - depth * drift) < 4 * moved.std() / math.sqrt(60)
    assert np.abs(walks.pair.cosine[:, -1]) == pytest.approx(np.ones(60))


def test_cosine_and_sine_belong_to_one_angle():
    for kind in ("gradients", "inputs"):
        pair = gw.simulate("tanh", 10, 20, gain=1.2, walks=50, rng=3, pair=kind).pair
        np.testing.assert_allclose(pair.cosine**2 + np.exp(2 * pair.log_sine), 1.0, atol=1e-6)


def test_inputs_that_merge_stay_merged():
    walks = gw.simulate("tanh", 20, 400, gain=0.9, walks=20, rng=3, pair="inputs")
    assert np.isfinite(walks.pair.log_norm).all()
    relu = gw.simulate("relu", 3, 400, gain=1.5, walks=20, rng=3, pair="inputs", weights="orthogonal")
    assert np.isfinite(relu.pair.log_norm).all()


def test_a_pair_is_the_same_for_the_same_seed_and_keeps_some_layers():
    whole = gw.simulate("tanh", 9, 30, gain=1.2, walks=40, rng=3, pair="inputs")
    some = gw.simulate("tanh", 9, 30, gain=1.2, walks=40, rng=3, pair="inputs", every=10)
    for values, kept in zip(whole.pair, some.pair, strict=True):
        np.testing.assert_array_equal(values[:, ::10], kept)
    assert gw.simulate("tanh", 9, 30, gain=1.2, walks=40, rng=3).pair is None


def test_orthonormalise_returns_the_factor_of_what_it_changed():
    vectors = np.random.default_rng(1).standard_normal((3, 5, 7)).astype(np.float32)
    vectors[2] = vectors[0] - vectors[1]  # of which nothing is left
    before = vectors.copy()
    factor = orthonormalise(vectors)
    np.testing.assert_allclose(np.einsum("ijw,iwn->jwn", factor, vectors), before, atol=1e-5)
    assert not vectors[2].any()
    np.testing.assert_allclose(
        np.einsum("iwn,jwn->wij", vectors, vectors)[:, :2, :2], np.tile(np.eye(2), (5, 1, 1)), atol=1e-6
    )


def test_vectors_that_depend_on_others_become_zero_by_orthonormalise():
    """Rounding errors of a vector that nearly depends on another are no direction of their own."""
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((4, 2000, 8)).astype(np.float32)
    vectors[..., 3:] = 0  # a space of three dimensions
    vectors[1] = vectors[0] + np.float32(1e-3) * vectors[1]
    orthonormalise(vectors)
    assert not vectors[3].any()


def test_a_span_projects_to_the_plane_of_its_vectors():
    rng = np.random.default_rng(2)
    units = rng.standard_normal((2, 4, 6)).astype(np.float32)
    units /= np.linalg.norm(units, axis=2, keepdims=True)
    span, vectors = Span.of(units), rng.standard_normal((2, 4, 6)).astype(np.float32)
    span.add(vectors, -span.along(vectors))
    np.testing.assert_allclose(np.einsum("iwn,jwn->ijw", units, vectors), 0, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pair": "layers"}, 'simulate: pair must be "gradients" or "inputs"'),
        ({"method": "dense"}, "simulate: pairs are sampled by method='exact' only"),
        ({"width": 2}, "simulate: pairs need at least 3 units per layer, got a layer of 2"),
        (
            {"activation": gw.residual(gw.dense("relu", width=2), gw.dense("relu", width=10)), "gain": None},
            "simulate: pairs need at least 3 units per layer, got a layer of 2",
        ),
        ({"activation": gw.dense("relu", width=9), "gain": None}, "simulate: a block that is repeated must return"),
    ],
)
def test_invalid_pairs_are_reported(change, message):
    arguments = {
        "activation": "relu",
        "width": 10,
        "depth": 5,
        "gain": 1.4,
        "walks": 3,
        "rng": 1,
        "pair": "inputs",
    } | change
    with pytest.raises(ValueError, match=message.split("(")[0]):
        gw.simulate(arguments.pop("activation"), arguments.pop("width"), arguments.pop("depth"), **arguments)

"""The exact sampler has the law of the literal network, for any widths, gains and weights; wrong input is refused."""

import math
import os

import numpy as np
import pytest
from helpers.laws import assert_same_law, with_vectors

import gradwalk as gw
from gradwalk.simulation import memory
from gradwalk.simulation.arena import Arena
from gradwalk.simulation.dense import DenseSampler
from gradwalk.simulation.exact import ExactSampler
from gradwalk.simulation.frames import Frames
from gradwalk.simulation.neutral import sides
from gradwalk.simulation.normals import Normals

RECTANGULAR = (7, 20, 5, 33, 12, 12, 40, 3)


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("name", ["linear", "relu", "leaky_relu(0.3)", "tanh", "gelu"])
@pytest.mark.parametrize("n", [5, 20])
def test_exact_and_dense_sampler_have_one_law(name, n, weights):
    depth, count = 12, 1500
    exact = gw.simulate(name, n, depth, gain=1.3, walks=count, rng=80 + n, weights=weights)
    dense = gw.simulate(name, n, depth, gain=1.3, walks=count, rng=90 + n, weights=weights, method="dense")
    for column in (5, depth):
        assert_same_law(exact.log_norm[:, column], dense.log_norm[:, column])
    assert_same_law(exact.log_variance[:, 0], dense.log_variance[:, 0])


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("name", ["linear", "relu", "leaky_relu(0.3)", "tanh", "gelu"])
def test_both_have_one_law_for_unequal_widths_and_gains(name, weights):
    gains = [1.1, 1.5, 0.9, 1.3, 1.2, 1.6, 1.0]
    exact = gw.simulate(name, RECTANGULAR, gain=gains, walks=4000, rng=15, weights=weights)
    dense = gw.simulate(name, RECTANGULAR, gain=gains, walks=4000, rng=6, weights=weights, method="dense")
    for column in (3, 7):
        assert_same_law(exact.log_norm[:, column], dense.log_norm[:, column])
    assert_same_law(exact.log_variance[:, 0], dense.log_variance[:, 0])


def test_the_joint_law_of_two_layers_agrees():
    exact, dense = (
        gw.simulate("tanh", 10, 12, gain=1.4, walks=4000, rng=5, method=method).log_norm[:, [6, 12]]
        for method in ("exact", "dense")
    )
    assert_same_law(exact @ [1.0, -1.0], dense @ [1.0, -1.0])
    assert_same_law(exact.prod(axis=1), dense.prod(axis=1))


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("name", ["linear", "relu", "leaky_relu(0.3)", "leaky_relu(-0.7)"])
@pytest.mark.parametrize("widths", [(2,) * 8, RECTANGULAR, RECTANGULAR[::-1]])
def test_neutral_walks_without_vectors_have_the_joint_law_of_walks_with_vectors(widths, name, weights):
    short, long = (
        gw.simulate(f, widths, gain=1.3, walks=10_000, rng=seed, weights=weights)
        for f, seed in ((name, 7), (with_vectors(name), 28))
    )
    statistics = (
        lambda walks: walks.log_norm[:, 4],
        lambda walks: walks.log_variance[:, 4],
        lambda walks: walks.final + walks.log_variance[:, 0],
        lambda walks: walks.log_norm[:, 4] * walks.log_variance[:, 4],
        lambda walks: walks.luck @ [1.0, 2.0] + walks.final if name != "relu" else walks.final,  # see luck of relu
    )
    for statistic in statistics:
        samples = (np.round(statistic(walks) + 1 / 300, 2) for walks in (short, long))  # atoms are rounded alike
        assert_same_law(*samples, level=0.01 / len(statistics))
    assert abs(short.resampled - long.resampled) <= 5 * math.sqrt(short.resampled + long.resampled)


def test_activations_that_need_no_vectors_are_the_neutral_ones():
    for name in gw.activations.names():
        f = gw.activation(name)
        assert (sides(f) is not None) == (gw.kind(f) == "neutral"), name
    relu = gw.activation("relu")
    assert sides(relu.scaled(7.0)) == sides(relu) == (0.0, 0.0)
    assert sides(gw.activation("hard_tanh").scaled(1e-9)) is None
    assert sides(
        gw.Activation("steep", lambda a: np.where(a > 0, a, -2 * a), lambda a: np.where(a > 0, 1.0, -2.0))
    ) == (
        math.log(2),
        -0.5,
    )


def test_a_factor_on_a_neutral_activation_is_a_factor_on_the_gain():
    plain = gw.simulate("relu", RECTANGULAR, gain=3.0, walks=5, rng=1)
    tripled = gw.Activation("relu3", lambda a: 3 * np.maximum(a, 0), lambda a: 3.0 * (a > 0), (0.0,))
    scaled = gw.simulate(tripled, RECTANGULAR, gain=1.0, walks=5, rng=1)
    np.testing.assert_allclose(scaled.log_norm, plain.log_norm)
    np.testing.assert_allclose(scaled.log_variance, plain.log_variance)


def test_the_variance_of_layer_0_is_one_and_grows_by_the_gain():
    low, high = (gw.simulate("relu", 20, 50, gain=gain, walks=5, rng=1) for gain in (1.0, 1.5))
    assert not low.log_variance[:, -1].any()
    grown = 2 * math.log(1.5) * np.arange(50, -1, -1)
    np.testing.assert_allclose(high.log_variance, low.log_variance + grown)


def test_the_dense_sampler_is_the_network_of_eq_1_to_7():
    """One network in plain NumPy, with the matrices that the sampler drew."""
    f, gain, n = gw.activation("tanh"), 1.3, 6
    sampler = DenseSampler(f, "gaussian", Arena(1 << 20), np.random.SeedSequence(1))
    layers = [sampler.first(1, n)]
    for _ in range(3):
        layers.append(sampler.forward(layers[-1].response.signal, n, gain))
    h = layers[0].response.signal.h[0]
    slopes = [layers[0].response.slope[0]]
    for layer in layers[1:]:
        a = gain * layer.matrix[0] @ h
        h = np.tanh(a)
        np.testing.assert_allclose(h, layer.response.signal.h[0], rtol=1e-10)
        slopes.append(1 - h**2)
    delta = np.random.default_rng(2).standard_normal(n)
    gradient, by_hand = layers[-1].matrix[0].T @ delta / np.linalg.norm(delta), delta
    growth = 0.0
    for d in (2, 1, 0):
        by_hand = slopes[d] * (gain * layers[d + 1].matrix[0].T @ by_hand)
        gradient, more = sampler.backward(np.atleast_2d(gradient), layers[d])
        growth += more[0] + math.log(gain)
    assert growth == pytest.approx(math.log(np.linalg.norm(by_hand) / np.linalg.norm(delta)), rel=1e-10)


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("n", [1, 2, 10, 100])
def test_relu_walk_has_the_mean_and_variance_that_theory_predicts(n, weights):
    if n == 1 and weights == "orthogonal":
        assert gw.simulate("relu", 1, 20, gain=1.0, walks=50, rng=1, weights=weights).spread < 1e-5
        return
    step, depth = gw.step("relu", n, weights=weights), 40
    walks = gw.simulate("relu", n, depth, gain=1.2, walks=4000, rng=7, weights=weights)
    expected = depth * (step.drift / 2 + math.log(1.2))
    assert abs(walks.mean - expected) < 4 * walks.standard_error
    assert walks.spread == pytest.approx(math.sqrt(depth * step.variance) / 2, rel=4 / math.sqrt(2 * 4000))


def test_leaky_relu_walk_has_the_variance_of_the_quadrature():
    step, depth = gw.step("leaky_relu(0.2)", 30), 60
    walks = gw.simulate("leaky_relu(0.2)", 30, depth, gain=1.0, walks=4000, rng=8)
    assert abs(walks.mean - depth * step.drift / 2) < 4 * walks.standard_error
    assert walks.spread == pytest.approx(math.sqrt(depth * step.variance) / 2, rel=4 / math.sqrt(2 * 4000))


def test_inactive_layers_are_resampled_and_counted():
    n, depth, count = 4, 30, 2000
    for f, method in (("relu", "exact"), (with_vectors("relu"), "exact"), ("relu", "dense")):
        walks = gw.simulate(f, n, depth, gain=1.0, walks=count, rng=4, method=method)
        share = 2.0**-n / (1 - 2.0**-n)  # expected number of draws before a layer is active
        expected = depth * count * share
        assert abs(walks.resampled - expected) < 4 * math.sqrt(expected * (1 + share))
    assert gw.simulate("tanh", n, depth, gain=1.0, walks=count, rng=4).resampled == 0


@pytest.mark.parametrize(("name", "left"), [("tanh", 0.5), ("linear", 0.8), ("leaky_relu(0.5)", 0.9)])
def test_luck_has_mean_zero_and_explains_much_of_a_walk(name, left):
    walks = gw.simulate(name, 50, 100, gain=1.2, walks=2000, rng=3)
    assert np.all(np.abs(walks.luck.mean(axis=0)) < 4 * walks.luck.std(axis=0) / math.sqrt(2000))
    rest = walks.final - walks.luck @ np.linalg.lstsq(walks.luck, walks.final - walks.mean)[0]
    assert rest.std() < left * walks.spread


def test_luck_of_relu_has_mean_zero_even_if_layers_are_resampled():
    walks = gw.simulate("relu", 4, 100, gain=1.2, walks=4000, rng=3)
    assert walks.resampled > 10_000
    assert np.all(np.abs(walks.luck.mean(axis=0)) < 4 * walks.luck.std(axis=0) / math.sqrt(4000))
    rest = walks.final - walks.luck @ np.linalg.lstsq(walks.luck, walks.final - walks.mean)[0]
    assert rest.std() < 0.9 * walks.spread


@pytest.mark.parametrize(("method", "sampler"), [("exact", ExactSampler), ("dense", DenseSampler)])
@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_layers_drawn_again_are_the_same_layers(method, sampler, weights, monkeypatch):
    arguments = {"gain": 1.3, "walks": 24, "rng": 5, "weights": weights, "method": method}
    whole = gw.simulate(with_vectors("relu"), 6, 40, **arguments)
    monkeypatch.setattr(memory, "KEPT_BYTES", 24 * 7.5 * sampler.layer_bytes(6, 6))
    monkeypatch.setattr(memory, "LEAST_BYTES", 24 * sampler.layer_bytes(6, 6))
    assert len(memory.segments(sampler, (6,) * 41, 24)) > 4
    segmented = gw.simulate(with_vectors("relu"), 6, 40, **arguments)
    np.testing.assert_array_equal(whole.log_norm, segmented.log_norm)
    assert whole.resampled == segmented.resampled


def test_a_smaller_last_block_fits_in_the_arena(monkeypatch):
    """With fewer walks a segment has more layers, and the arena needs room for them."""
    size = ExactSampler.layer_bytes(6, 6)
    monkeypatch.setattr(memory, "KEPT_BYTES", 10 * 3.9 * size)
    monkeypatch.setattr(memory, "LEAST_BYTES", 10 * size)
    monkeypatch.setattr(memory, "BLOCK_BYTES", 10 * size)
    assert np.isfinite(gw.simulate("tanh", 6, 40, gain=1.3, walks=17, rng=1).log_norm).all()


@pytest.mark.parametrize("name", ["tanh", "relu"])
def test_same_seed_same_walks_on_any_number_of_cores(name, monkeypatch):
    arguments = {"gain": 1.1, "walks": 12_000, "rng": 5}
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    here = gw.simulate(name, 30, 5, **arguments)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    np.testing.assert_array_equal(here.log_norm, gw.simulate(name, 30, 5, **arguments).log_norm)
    assert not np.array_equal(here.log_norm, gw.simulate(name, 30, 5, gain=1.1, walks=12_000, rng=6).log_norm)


def test_a_second_thread_is_used_only_where_layers_keep_it_busy(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    threads = {walks: memory.plan(ExactSampler, (30,) * 6, walks).threads for walks in (400, 4000, 12_000)}
    assert threads == {400: 1, 4000: 1, 12_000: 2}
    deep = memory.plan(Frames, (64,) * 1001, 1000)  # few walks fit in memory: several blocks, all of them light
    assert deep.block < 1000
    assert deep.threads == 1


@pytest.mark.parametrize("width", [2, 100, 3000])
@pytest.mark.parametrize("walks", [1, 400, 401, 2000, 9999])
def test_two_threads_have_equal_shares_of_the_walks(width, walks):
    block = memory.plan(ExactSampler, (width,) * 21, walks).block
    number = math.ceil(walks / block)
    assert number == 1 or number % 2 == 0
    assert number * block - walks < number  # all blocks are of one size, up to rounding


@pytest.mark.parametrize("count", [1, 700, 40_000, 70_001])
def test_no_normal_number_is_made_in_vain(count, monkeypatch):
    made, make = [], Normals._make
    monkeypatch.setattr(Normals, "_make", lambda self, number: made.append(number) or make(self, number))
    normals, draws = Normals(np.random.SeedSequence(1)), 0
    while len(made) < 3:
        normals.draw(count, 1)
        draws += 1
    assert sum(made[:2]) - (draws - 1) * count <= 2  # numbers are made in pairs


def test_a_generator_advances_and_the_global_seed_is_untouched():
    rng = np.random.default_rng(1)
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = (gw.simulate("relu", 5, 5, gain=1.4, walks=5, rng=rng).final for _ in range(2))
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("name", ["tanh", "relu"])
def test_every_keeps_some_layers_of_the_same_walks(name):
    whole = gw.simulate(name, 20, 50, gain=1.4, walks=10, rng=1)
    some = gw.simulate(name, 20, 50, gain=1.4, walks=10, rng=1, every=20)
    assert some.layers.tolist() == [50, 30, 10, 0]
    np.testing.assert_array_equal(some.log_norm, whole.log_norm[:, [0, 20, 40, 50]])
    np.testing.assert_array_equal(some.log_variance, whole.log_variance[:, [0, 20, 40, 50]])


def test_walks_describe_what_was_sampled():
    walks = gw.simulate("tanh", [7, 20, 5, 9], gain=[1.0, 1.2, 1.4], walks=30, rng=1, weights="orthogonal")
    assert (str(walks.activation), walks.widths, walks.weights, walks.depth) == ("tanh", (7, 20, 5, 9), "orthogonal", 3)
    assert walks.gains.tolist() == [1.0, 1.2, 1.4]
    assert repr(walks).startswith("Walks(30 walks of tanh, depth 3: final log-norm ")


def test_the_summary_has_the_quantiles_of_the_walks_at_a_few_layers():
    walks = gw.simulate("relu", 20, 40, gain=1.4, walks=200, rng=1)
    rows = walks.summary(layers=3)
    assert [row.layer for row in rows] == [40, 20, 0]
    column = walks.log_norm[:, 20]
    assert rows[1][1:] == pytest.approx((column.mean(), *np.quantile(column, [0.05, 0.95])))


GOOD = {"activation": "relu", "width": 10, "depth": 5, "gain": 1.4, "walks": 3, "rng": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 0}, "simulate: width must be at least 1, got width=0"),
        ({"depth": 0}, "simulate: depth must be at least 1, got depth=0"),
        ({"depth": None}, "simulate: depth is missing; pass depth= or the depth + 1 widths"),
        ({"gain": -1.0}, "simulate: gain must be positive and finite, got gain=-1.0"),
        ({"gain": math.nan}, "simulate: gain must be positive and finite, got gain=nan"),
        ({"gain": 1e300}, "simulate: gain must lie between"),
        ({"gain": [1.0, 2.0]}, "simulate: gain must be one number or depth=5 of them, got 2"),
        ({"width": [3, 4], "depth": 7}, "simulate: width must list depth + 1 layers, got 2 widths for depth=7"),
        ({"width": [3], "depth": None}, "simulate: width must list at least 2 layers"),
        ({"walks": 0}, "simulate: walks must be at least 1"),
        ({"rng": -1}, "simulate: rng must be at least 0"),
        ({"weights": "haar"}, 'simulate: weights must be "gaussian" or "orthogonal"'),
        ({"method": "fast"}, 'simulate: method must be "exact" or "dense"'),
        ({"activation": "rleu"}, "did you mean 'relu'"),
        ({"width": 10**8}, "simulate: width must be at most"),
        ({"walks": 10**5, "depth": 1000}, "keep fewer layers with every=5 or reduce the number of walks"),
        ({"width": 20_000, "method": "dense"}, "use method='exact'"),
        ({"activation": gw.Activation("none", np.zeros_like, np.zeros_like)}, "a layer was inactive in 2001 draws"),
        (
            {"activation": gw.Activation("cube", lambda a: a**3, lambda a: 3 * a**2), "depth": 30},
            "exceeds the range of floating point",
        ),
    ],
)
def test_invalid_input_is_reported_in_one_sentence(change, message):
    arguments = GOOD | change
    with pytest.raises(ValueError, match=": ") as error:
        gw.simulate(arguments.pop("activation"), arguments.pop("width"), arguments.pop("depth"), **arguments)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_residual_networks_that_do_not_fit_in_memory_are_refused():
    with pytest.raises(ValueError, match="this wide and this deep do not fit in memory"):
        gw.simulate(gw.residual(gw.dense("tanh", gain=1.0)), 10**6, 10**4, walks=2, rng=1)


def test_the_suggested_number_of_layers_to_keep_fits():
    with pytest.raises(ValueError, match="every=") as error:
        gw.simulate("relu", 2, 100_000, gain=1.4, walks=1000, rng=1)
    every = int(str(error.value).split("every=")[1].split()[0])
    assert 1000 * len(memory.kept_layers(100_000, every, 1000)) <= memory.RESULT_CELLS


@pytest.mark.parametrize(
    ("change", "message"),
    [({"gain": "big"}, "gain must be a number"), ({"width": "10"}, "width must be"), ({"rng": 1.5}, "rng must be")],
)
def test_wrong_types_are_type_errors(change, message):
    arguments = GOOD | change
    with pytest.raises(TypeError, match=message):
        gw.simulate(arguments.pop("activation"), arguments.pop("width"), arguments.pop("depth"), **arguments)

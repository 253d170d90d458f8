"""Each f' is the derivative of its f, names are understood as users write them, and users register their own."""

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.activations import names

LISTED = [
    "linear",
    "relu",
    "relu6",
    "leaky_relu",
    "tanh",
    "sigmoid",
    "hard_sigmoid",
    "log_sigmoid",
    "softplus",
    "elu",
    "celu",
    "selu",
    "gelu",
    "silu",
    "hard_swish",
    "mish",
    "erf",
    "softsign",
    "hard_tanh",
    "sin",
]


def test_all_listed_activations_exist():
    assert set(LISTED) <= set(names())


@pytest.mark.parametrize(
    "name", [*LISTED, "leaky_relu(0.2)", "elu(0.5)", "celu(0.5)", "softplus(3)", "gelu@0.8", "hard_tanh*2@0.5"]
)
def test_derivative_is_that_of_f(name):
    f = gw.activation(name)
    a = np.linspace(-4.01, 4.03, 200)
    a = a[np.all([np.abs(a - kink) > 1e-3 for kink in (*f.kinks, 9.0)], axis=0)]
    step = 1e-6
    measured = (f.f(a + step) - f.f(a - step)) / (2 * step)
    np.testing.assert_allclose(f.derivative(a), measured, atol=1e-8)


@pytest.mark.parametrize("name", [*LISTED, "gelu@0.8"])
def test_single_precision_stays_single_and_is_right(name):
    f = gw.activation(name)
    a = np.linspace(-9, 9, 101)
    for function in (f.f, f.derivative):
        single = function(a.astype(np.float32))
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, function(a), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("LeakyReLU(negative_slope=0.2)", "leaky_relu(0.2)"),
        ("SiLU", "silu"),
        ("swish", "silu"),
        ("Identity", "linear"),
        ("Hardtanh", "hard_tanh"),
        ("soft_sign", "softsign"),
        ("Hardswish", "hard_swish"),
        ("hard_silu", "hard_swish"),
        ("CELU(alpha=0.5)", "celu(0.5)"),
        ("logsigmoid", "log_sigmoid"),
        ("hard-tanh", "hard_tanh"),
        ("ReLU", "relu"),
    ],
)
def test_names_of_the_frameworks_are_understood(alias, name):
    assert gw.activation(alias).name == name


def test_tail_of_tanh_does_not_underflow_where_one_minus_square_would():
    assert gw.activation("tanh").derivative(np.array([30.0]))[0] == pytest.approx(4 * np.exp(-60.0), rel=1e-12)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tahn", "did you mean 'tanh'"),
        ("Gelo", "did you mean 'gelu'"),
        ("xyzzy", "known are"),
        ("relu(2)", "takes no parameter"),
        ("leaky_relu(steep)", "must be a number"),
        ("leaky_relu(nan)", "must be finite"),
        ("elu(-1)", "must be positive and finite"),
        ("gelu*much", "the scale in 'gelu*much' must be a number"),
        ("gelu@some", "the leak in 'gelu@some' must be a number"),
        ("@0.5", "known are"),
        ("relu)(", "must be a name"),
        ("", "must be a name"),
    ],
)
def test_wrong_names_get_one_sentence_with_help(name, message):
    with pytest.raises(ValueError, match="activation: ") as error:
        gw.activation(name)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_anything_but_a_name_or_an_activation_is_a_type_error():
    with pytest.raises(TypeError, match=r"activation: must be a name or a gradwalk.Activation, got 3"):
        gw.activation(3)


def test_a_registered_activation_is_known_by_name_and_its_derivative_is_computed():
    gw.register("half_tanh", lambda a: np.tanh(a / 2))
    a = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(gw.activation("half_tanh").derivative(a), 0.5 / np.cosh(a / 2) ** 2, rtol=1e-12)
    assert gw.kind("half-tanh") == "steady"


@pytest.mark.parametrize(
    ("name", "f", "derivative", "message"),
    [
        ("tanh", np.tanh, None, "must be new"),
        ("wrong", np.tanh, np.cos, "the derivative of 'wrong'"),
        ("kinked", np.abs, None, "the derivative of 'kinked'"),
        ("scalar", np.sum, np.cos, "must return an array of the shape"),
        ("broken", lambda a: a.nonsense, np.cos, "cannot be evaluated"),
        ("nan", lambda a: np.full_like(a, np.nan), np.ones_like, "the derivative of 'nan'"),
    ],
)
def test_an_invalid_registration_is_refused(name, f, derivative, message):
    with pytest.raises(ValueError, match=message):
        gw.register(name, f, derivative)


def test_scaled_activation_keeps_the_slope_and_moves_the_kinks():
    scaled = gw.activation("hard_tanh").scaled(4.0)
    assert scaled.kinks == (-0.25, 0.25)
    np.testing.assert_allclose(scaled.f(np.array([0.1, 1.0])), [0.1, 0.25])
    with pytest.raises(ValueError, match="scale must be positive"):
        scaled.scaled(0.0)


def test_a_leaking_activation_passes_a_share_unchanged_and_keeps_the_kinks():
    f = gw.activation("hard_tanh").leaking(0.75)
    assert f.kinks == (-1.0, 1.0)
    np.testing.assert_allclose(f.f(np.array([0.5, 2.0])), [0.5, 0.75 * 2 + 0.25])
    np.testing.assert_allclose(f.derivative(np.array([0.5, 2.0])), [1.0, 0.75])


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("relu@0.8", "leaky_relu(0.8)"),
        ("leaky_relu(0.5)@0.5", "leaky_relu(0.75)"),
        ("leaky_relu(-0.5)@0.5", "leaky_relu(0.25)"),
        ("linear@0.5", "linear"),
        ("gelu@0.5@0.5", "gelu@0.75"),
        ("relu@0.5@0.5", "leaky_relu(0.75)"),
        ("GELU @ 0.8", "gelu@0.8"),
        ("gelu@0", "gelu"),
        ("gelu*100@0.8", "gelu*100@0.8"),
        ("gelu@0.8*100", "gelu@0.8*100"),
        ("elu(0.5)@0.25", "elu(0.5)@0.25"),
    ],
)
def test_each_leak_has_one_name_and_is_one_object(written, name):
    f = gw.activation(written)
    assert f.name == name
    assert gw.activation(name) is f


def test_leaks_of_leaks_compute_what_their_one_leak_computes():
    a, gelu = np.linspace(-3, 3, 25), gw.activation("gelu")
    once = gelu.leaking(0.5)
    np.testing.assert_allclose(once.leaking(0.2).f(a), 0.2 * a + 0.8 * once.f(a), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("leak", [1.0, -0.1, float("nan")])
def test_a_leak_outside_its_range_is_refused(leak):
    with pytest.raises(ValueError, match="leaking: leak must be"):
        gw.activation("gelu").leaking(leak)


def test_an_own_activation_named_relu_leaks_as_itself():
    fake = gw.Activation("relu", np.sin, np.cos, family="relu")
    assert fake.leaking(0.5).f(1.0) == 0.5 + 0.5 * np.sin(1.0)


def test_the_leak_of_gelu_makes_its_walk_serviceable_and_its_gain_unbiased():
    estimate = gw.solve_gain("gelu@0.8", 48, 256, weights="orthogonal")
    assert estimate.spread == pytest.approx(0.52, abs=0.06)  # found before with another program
    walks = gw.simulate("gelu@0.8", 48, 256, gain=estimate.value, weights="orthogonal", walks=400, rng=3)
    final = walks.log_norm[:, -1]
    assert abs(final.mean()) < 4 * final.std() / 400**0.5


@pytest.mark.parametrize("value", [0.123456789012, 1e-7, 2.0])
def test_the_name_of_a_member_keeps_its_parameter_exactly(value):
    f = gw.activation(f"leaky_relu({value!r})")
    assert f.parameter == value
    assert gw.activation(f.name) is f


def test_every_spelling_and_scale_of_an_activation_is_one_object():
    assert gw.activation("gelu*100") is gw.activation("GELU").scaled(100)
    assert gw.activation("leaky_relu") is gw.activation("LeakyReLU(negative_slope=0.01)")


def test_registering_a_name_again_replaces_the_activation():
    first = gw.register("replaced", np.tanh)
    second = gw.register("replaced", np.sin)
    assert gw.activation("replaced") is second
    assert first != second


@pytest.mark.parametrize("framework", ["torch", "jax", "keras"])
def test_a_counterpart_that_cannot_be_called_is_refused(framework):
    with pytest.raises(TypeError, match=f"register: {framework} must be a class or a function"):
        gw.register("uncalled", np.tanh, **{framework: "tanh"})

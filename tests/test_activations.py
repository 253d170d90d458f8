"""Each f' is the derivative of its f, names are found as users write them, and users bring their own."""

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.activations import names

LISTED = [
    "linear",
    "relu",
    "leaky_relu",
    "tanh",
    "sigmoid",
    "softplus",
    "elu",
    "selu",
    "gelu",
    "silu",
    "mish",
    "erf",
    "softsign",
    "hard_tanh",
    "sin",
]


def test_all_of_the_listed_activations_are_there():
    assert set(LISTED) <= set(names())


@pytest.mark.parametrize("name", [*LISTED, "leaky_relu(0.2)", "elu(0.5)", "softplus(3)"])
def test_derivative_is_that_of_f(name):
    f = gw.activation(name)
    a = np.linspace(-4.01, 4.03, 200)
    a = a[np.all([np.abs(a - kink) > 1e-3 for kink in (*f.kinks, 9.0)], axis=0)]
    step = 1e-6
    measured = (f.f(a + step) - f.f(a - step)) / (2 * step)
    np.testing.assert_allclose(f.derivative(a), measured, atol=1e-8)


@pytest.mark.parametrize("name", LISTED)
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
        ("hard-tanh", "hard_tanh"),
        ("ReLU", "relu"),
    ],
)
def test_names_of_the_frameworks_are_understood(alias, name):
    assert gw.activation(alias).name == name


def test_tail_of_tanh_does_not_underflow_where_one_minus_square_would():
    assert gw.activation("tanh").derivative(np.array([30.0]))[0] == pytest.approx(4 * np.exp(-60.0), rel=1e-12)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tahn", "did you mean 'tanh'"),
        ("Gelo", "did you mean 'gelu'"),
        ("xyzzy", "known are"),
        ("relu(2)", "takes no parameter"),
        ("leaky_relu(steep)", "must be a number"),
        ("leaky_relu(nan)", "positive and finite"),
        ("relu)(", "write a name"),
        ("", "write a name"),
    ],
)
def test_wrong_names_get_one_sentence_with_help(name, said):
    with pytest.raises(ValueError, match="activation: ") as error:
        gw.activation(name)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_something_that_is_no_name_is_a_type_error():
    with pytest.raises(TypeError, match="a name or an Activation is needed, got 3"):
        gw.activation(3)


def test_registered_activation_works_by_name_and_its_derivative_is_found():
    gw.register("half_tanh", lambda a: np.tanh(a / 2))
    a = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(gw.activation("half_tanh").derivative(a), 0.5 / np.cosh(a / 2) ** 2, rtol=1e-12)
    assert gw.kind("half-tanh") == "steady"


@pytest.mark.parametrize(
    ("name", "f", "derivative", "said"),
    [
        ("tanh", np.tanh, None, "must be new"),
        ("wrong", np.tanh, np.cos, "the derivative of 'wrong'"),
        ("kinked", np.abs, None, "the derivative of 'kinked'"),
        ("scalar", np.sum, np.cos, "must return one value"),
        ("broken", lambda a: a.nonsense, np.cos, "cannot be evaluated"),
        ("nan", lambda a: np.full_like(a, np.nan), np.ones_like, "the derivative of 'nan'"),
    ],
)
def test_registering_something_wrong_is_refused(name, f, derivative, said):
    with pytest.raises(ValueError, match=said):
        gw.register(name, f, derivative)


def test_scaled_activation_keeps_the_slope_and_moves_the_kinks():
    scaled = gw.activation("hard_tanh").scaled(4.0)
    assert scaled.kinks == (-0.25, 0.25)
    np.testing.assert_allclose(scaled.f(np.array([0.1, 1.0])), [0.1, 0.25])
    with pytest.raises(ValueError, match="scale must be positive"):
        scaled.scaled(0.0)

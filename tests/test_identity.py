"""What a function computes counts, and not what it is called: in identities of runs, in closed forms, in `register`."""

import math

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import activations

NAN, INF = math.nan, math.inf


def relu(a):
    return np.maximum(a, 0)


def heaviside(a):
    return (np.asarray(a) > 0).astype(float)


def twice():
    """2 relu, under relu's name."""
    return gw.Activation("relu", lambda a: 2 * relu(a), lambda a: 2 * heaviside(a), (0.0,))


def test_closed_forms_go_by_the_function_and_not_by_its_name():
    step, half = gw.step("relu", 50), gw.step(twice(), 50)
    assert half.drift == pytest.approx(step.drift + 2 * math.log(2), abs=1e-9)
    assert gw.gain(twice(), 50) == pytest.approx(gw.gain("relu", 50) / 2, rel=1e-9)
    with pytest.raises(ValueError, match="the paper prints no formula for relu"):
        gw.step(twice(), 50, formula="paper")


def test_an_own_relu_under_another_name_has_relus_step():
    own = gw.Activation("mine", relu, heaviside, (0.0,))
    assert gw.step(own, 50) == pytest.approx(gw.step("relu", 50), rel=1e-9)


def test_registering_a_name_again_changes_the_identity_of_its_runs():
    pytest.importorskip("torch")
    from gradwalk.data import load
    from gradwalk.train import Run

    data = load("digits", examples=50)

    def identity(scale):
        gw.register("bent-twice", lambda a: scale * np.tanh(a), lambda a: scale / np.cosh(a) ** 2)
        names = ("bent-twice", "bent-twice*3", "bent-twice@0.5")
        return tuple(Run(data="digits", examples=50, activation=name).identity(data) for name in names)

    one, other, again = identity(1.0), identity(1.5), identity(1.0)
    assert one == again
    assert not set(one) & set(other)


def test_the_identity_of_a_built_in_activation_is_its_name():
    assert activations.identity(activations.activation("leaky_relu(0.2)")) == "leaky_relu(0.2)"
    assert activations.identity(activations.activation("gelu*100")) == "gelu*100"
    assert activations.identity(activations.activation("gelu@0.8")) == "gelu@0.8"
    assert activations.identity(twice()).startswith("relu ")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": 7}, "register: name must be a text, got name=7"),
        ({"kinks": (NAN,)}, "Activation: kinks must be finite"),
        ({"kinks": (INF, 0.0)}, "Activation: kinks must be finite"),
        ({"kinks": ("here",)}, "Activation: kinks must be numbers"),
        ({"kinks": 3}, "Activation: kinks must be numbers"),
        ({"kinks": tuple(np.linspace(-3.03, 3.07, 41))}, "must leave room between them"),
        ({"f": "tanh"}, "Activation: f must be a function, got f='tanh'"),
        ({"derivative": lambda a: 2 / np.cosh(a) ** 2}, "the derivative of 'odd' at a=-3.03 is"),
    ],
)
def test_register_refuses_what_is_no_activation(changes, message):
    given = {"name": "odd", "f": np.tanh, "derivative": lambda a: np.cosh(a) ** -2} | changes
    with pytest.raises((ValueError, TypeError), match=f"{message}"):
        gw.register(**given)

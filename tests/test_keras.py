"""The initialiser of Keras: seeds, saving, and its activations."""

import math

import numpy as np
import pytest
from helpers.kernels import assert_relu_kernel

import gradwalk

# Keras converts its variables to arrays as NumPy 1 required.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")


@pytest.fixture
def keras():
    return pytest.importorskip("keras", reason="keras is not installed")


def test_keras_seeds_behave_as_in_keras(keras):
    from gradwalk.keras import RandomWalk

    def twice(seed, weights):
        init = RandomWalk("relu", seed=seed, weights=weights)
        return [keras.ops.convert_to_numpy(init((20, 30))) for _ in range(2)]

    for weights in ("gaussian", "orthogonal"):
        one, two = twice(5, weights)
        np.testing.assert_array_equal(one, two)
        for seed in (keras.random.SeedGenerator(5), None):
            one, two = twice(seed, weights)
            assert abs(np.corrcoef(one.ravel(), two.ravel())[0, 1]) < 4 / math.sqrt(600)
        assert not np.allclose(*(twice(None, weights)[0] for _ in range(2)))


def test_keras_layers_that_share_an_initialiser_differ(keras):
    from gradwalk.keras import RandomWalk

    init = RandomWalk("relu")
    layers = [keras.layers.Dense(50, kernel_initializer=init) for _ in range(2)]
    keras.Sequential([keras.Input((50,)), *layers])
    one, two = (keras.ops.convert_to_numpy(layer.kernel).ravel() for layer in layers)
    assert abs(np.corrcoef(one, two)[0, 1]) < 4 / 50


def test_keras_layers_take_it(keras):
    from gradwalk.keras import RandomWalk

    dense = keras.layers.Dense(80, kernel_initializer=RandomWalk("relu", seed=1))
    conv = keras.layers.Conv2D(60, (3, 5), kernel_initializer=RandomWalk("relu", seed=2))
    dense.build((None, 120))
    conv.build((None, 9, 9, 7))
    assert_relu_kernel(keras.ops.convert_to_numpy(dense.kernel))
    assert_relu_kernel(keras.ops.convert_to_numpy(conv.kernel))


def test_keras_half_precision_loses_neither_variance_nor_tails(keras):
    from gradwalk.keras import RandomWalk

    values = RandomWalk(gain=1.0, seed=1)((1000, 3000), "bfloat16")
    assert keras.backend.standardize_dtype(values.dtype) == "bfloat16"
    values = keras.ops.convert_to_numpy(keras.ops.cast(values, "float32"))
    assert values.var() * 1000 == pytest.approx(1.0, abs=4 * math.sqrt(2 / 3e6))
    assert np.abs(values).max() * math.sqrt(1000) > 4  # drawn in bfloat16 it would end at 2.9


def test_keras_configuration_comes_back(keras):
    from gradwalk.keras import RandomWalk

    for seed in (None, 7, keras.random.SeedGenerator(7)):
        init = RandomWalk("leaky_relu(0.123456789)", gain=1.25, depth=9, weights="orthogonal", seed=seed)
        again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(init))
        assert isinstance(again, RandomWalk)
        assert again.get_config() == init.get_config()
        if seed is not None:
            np.testing.assert_array_equal(*(keras.ops.convert_to_numpy(each((4, 3))) for each in (init, again)))
    assert init.get_config()["activation"] == "leaky_relu(0.123456789)"
    assert isinstance(init.clone(), RandomWalk)


def test_keras_saves_a_model_with_it(keras, tmp_path):
    from gradwalk.keras import RandomWalk

    first = keras.layers.Dense(6, "tanh", kernel_initializer=RandomWalk())
    second = keras.layers.Dense(3, kernel_initializer=RandomWalk("tanh", depth=1, seed=keras.random.SeedGenerator(3)))
    model = keras.Sequential([keras.Input((5,)), first, second])
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    x = np.ones((2, 5), dtype="float32")
    np.testing.assert_array_equal(*(keras.ops.convert_to_numpy(each(x)) for each in (model, again)))
    config = again.layers[1].kernel_initializer.get_config()
    assert (config["activation"], config["depth"], config["seed"]["config"]["seed"]) == ("tanh", 1, 3)


def test_keras_names_mean_what_they_mean_in_keras(keras):
    from gradwalk.keras import RandomWalk

    x = np.linspace(-3, 3, 25)
    for name in ("linear", "relu", "leaky_relu", "elu", "selu", "tanh", "sigmoid", "softplus", "gelu", "silu", "mish",
                 "softsign", "hard_tanh"):  # fmt: skip
        function = getattr(keras.activations, name)
        for given in (name, function):
            ours = gradwalk.activation(RandomWalk(given).get_config()["activation"]).f(x)
            np.testing.assert_allclose(ours, keras.ops.convert_to_numpy(function(keras.ops.array(x))), atol=2e-6)


def test_a_leak_of_keras_computes_its_formula_is_known_and_saved_with_its_model(keras, tmp_path):
    from gradwalk.keras import Leak, RandomWalk, plan

    leak, x = Leak("gelu", 0.8), np.linspace(-3, 3, 12, dtype=np.float32).reshape(2, 6)
    expected = 0.8 * x + 0.2 * keras.ops.convert_to_numpy(keras.activations.gelu(keras.ops.array(x)))
    np.testing.assert_allclose(keras.ops.convert_to_numpy(leak(keras.ops.array(x))), expected, rtol=1e-5, atol=1e-6)
    deep = RandomWalk(leak, depth=3, seed=0)
    assert deep.get_config()["activation"] == "gelu@0.8"
    dense = keras.layers.Dense
    layers = [keras.Input((6,)), dense(6, leak), dense(6), keras.layers.Activation(Leak("tanh", 0.5)), dense(2)]
    model = keras.Sequential(layers)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(again.predict(x, verbose=0), model.predict(x, verbose=0), rtol=1e-6)
    assert [row.activation for row in plan(again).rows] == ["linear", "gelu@0.8", "tanh@0.5"]


def test_keras_refuses_what_it_cannot_save_or_understand(keras):
    from gradwalk.keras import RandomWalk

    custom = gradwalk.Activation("cube", lambda a: a**3, lambda a: 3 * a**2)
    with pytest.raises(TypeError, match=r"not registered cannot be saved; .* got 'cube'"):
        RandomWalk(custom, gain=1.0).get_config()
    with pytest.raises(TypeError, match=r"RandomWalk: activation must be a name, a function that gradwalk knows"):
        RandomWalk(lambda a: a)
    with pytest.raises(TypeError, match="seed must be an int or a"):
        RandomWalk(seed=1.5)
    with pytest.raises(ValueError, match=r"fan-in of at least 1, got shape=\(0, 3\)"):
        RandomWalk()((0, 3))
    with pytest.raises(ValueError, match="dtype must be a floating-point type, got dtype=int32"):
        RandomWalk()((4, 3), "int32")


def test_a_registered_activation_brings_its_function_of_keras_and_is_saved_by_name(keras):
    from gradwalk.keras import RandomWalk

    def cubed(a):
        return a + a**3 / 10

    gradwalk.register("cubed_in_keras", lambda a: a + a**3 / 10, keras=cubed)
    init = RandomWalk(cubed, depth=3, seed=1)
    assert init.get_config()["activation"] == "cubed_in_keras"
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(init))
    np.testing.assert_array_equal(*(keras.ops.convert_to_numpy(each((4, 3))) for each in (init, again)))

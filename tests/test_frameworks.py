"""One contract for the initialisers of torch, JAX and Keras, and what each framework requires besides."""

import functools
import math
import os
import random
import subprocess
import sys

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for a small QR, two threads are slower than one on a busy machine

import numpy as np
import pytest
from scipy import stats

import gradwalk
from gradwalk import activations

# Keras converts its variables to arrays as NumPy 1 required.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")

# Kernels as JAX and Keras shape them: (in, out) and (kernel..., in, out).
SHAPES = [(300, 170), (120, 410), (3, 5, 16, 70)]
DEPTH, WIDTH, NETS = 200, 50, 40


class Torch:
    def __init__(self):
        self.torch = pytest.importorskip("torch", reason="torch is not installed")

    def draw(self, shape, seed, activation="linear", **options):
        from gradwalk.torch import random_walk_

        *kernel, n_in, n_out = shape if len(shape) > 1 else (1, *shape)
        tensor = self.torch.empty((n_out, n_in, *kernel) if len(shape) > 1 else shape)
        generator = self.torch.Generator().manual_seed(seed)
        values = random_walk_(tensor, activation, generator=generator, **options)
        return np.moveaxis(values.numpy(), (0, 1), (-1, -2))

    def global_state(self):
        return self.torch.get_rng_state().numpy().tobytes()


class Jax:
    def __init__(self):
        self.jax = pytest.importorskip("jax", reason="jax is not installed")

    def draw(self, shape, seed, activation="linear", **options):
        from gradwalk.jax import random_walk

        return np.asarray(random_walk(activation, **options)(self.jax.random.key(seed), shape))

    def global_state(self):
        return None  # JAX has none


class Keras:
    def __init__(self):
        self.keras = pytest.importorskip("keras", reason="keras is not installed")

    def draw(self, shape, seed, activation="linear", **options):
        from gradwalk.keras import RandomWalk

        return self.keras.ops.convert_to_numpy(RandomWalk(activation, seed=seed, **options)(shape))

    def global_state(self):
        from keras.src.random.seed_generator import global_seed_generator

        return self.keras.ops.convert_to_numpy(global_seed_generator().state.value).tobytes()


@pytest.fixture(params=[Torch, Jax, Keras], ids=lambda each: each.__name__.lower())
def framework(request):
    return request.param()


@pytest.fixture
def jax():
    return pytest.importorskip("jax", reason="jax is not installed")


@pytest.fixture
def keras():
    return pytest.importorskip("keras", reason="keras is not installed")


def fan_in(shape):
    return math.prod(shape[:-1])


# The contract.


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_weights_have_mean_0_and_the_variance_of_the_gain(framework, shape, weights):
    values = framework.draw(shape, 1, "relu", weights=weights).astype(float)
    variance = gradwalk.gain("relu", fan_in(shape), weights=weights) ** 2 / fan_in(shape)
    assert values.shape == shape
    assert abs(values.mean()) < 4 * math.sqrt(variance / values.size)
    error = math.sqrt(2 / values.size) if weights == "gaussian" else 1e-6  # exact for an orthogonal matrix
    assert abs((values**2).mean() / variance - 1) < 4 * error


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gaussian_weights_are_normal_and_not_truncated(framework, shape):
    values = framework.draw(shape, 2, gain=2.0).ravel() * math.sqrt(fan_in(shape)) / 2.0
    assert stats.kstest(values, "norm").pvalue > 1e-3
    assert np.abs(values).max() > 3.5


@pytest.mark.parametrize("shape", [*SHAPES, (60, 60)], ids=str)
def test_orthogonal_weights_are_orthogonal_up_to_scale(framework, shape):
    matrix = framework.draw(shape, 3, gain=1.5, weights="orthogonal").reshape(fan_in(shape), shape[-1]).astype(float)
    n_in, n_out = matrix.shape
    gram = matrix @ matrix.T if n_in < n_out else matrix.T @ matrix
    np.testing.assert_allclose(gram, 1.5**2 * max(1, n_out / n_in) * np.eye(len(gram)), atol=2e-5)


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_two_seeds_give_independent_weights_and_one_seed_the_same(framework, weights):
    shape = SHAPES[0]
    one, two, again = (framework.draw(shape, seed, weights=weights).ravel() for seed in (4, 5, 4))
    assert abs(stats.pearsonr(one, two).statistic) * math.sqrt(one.size) < 4
    np.testing.assert_array_equal(one, again)


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_the_global_seeds_stay_untouched(framework, weights):
    def states():
        return random.getstate(), repr(np.random.get_state()), framework.global_state()  # noqa: NPY002

    framework.global_state()  # Keras creates its own on first access
    before = states()
    framework.draw((30, 20), 6, "tanh", weights=weights, depth=10)
    assert states() == before


def test_depth_sets_the_gain_of_tanh(framework):
    for depth in (5, 50):
        values = framework.draw((100, 400), 7, "tanh", depth=depth)
        error = 1 / math.sqrt(2 * values.size)
        assert values.std() * math.sqrt(100) == pytest.approx(gradwalk.gain("tanh", 100, depth), rel=4 * error)
    assert gradwalk.gain("tanh", 100, 5) > 1.05 * gradwalk.gain("tanh", 100, 50)


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((4, 3), {"activation": "rleu"}, "there is no activation 'rleu'; did you mean 'relu'"),
        ((4, 3), {"activation": "tanh"}, "pass depth="),
        ((4, 3), {"activation": "tanh", "depth": 0}, "depth must be at least 1, got depth=0"),
        ((4, 3), {"weights": "uniform"}, 'weights must be "gaussian" or "orthogonal", got weights=\'uniform\''),
        ((4, 3), {"gain": -1.0}, "gain must be positive and finite, got gain=-1.0"),
        ((4,), {}, r"must be \(.*out.*got|got .*shape=\(4,\)"),
    ],
    ids=["activation", "depth missing", "depth", "weights", "gain", "width"],
)
def test_bad_input_is_refused_in_one_sentence(framework, shape, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        framework.draw(shape, 0, **options)
    assert "\n" not in str(caught.value)


# Deep networks.


def final_log_norms(layers, f, rng):
    """Return ln(|gradient at the input| / |delta_D|) of nets, whose layers are pairs of forward and backward maps."""
    h, pre = rng.standard_normal((NETS, WIDTH)), []
    for forward, _ in layers:
        pre.append(forward(h))
        h = f.f(pre[-1])
    delta = rng.standard_normal((NETS, WIDTH))
    start = np.linalg.norm(delta, axis=1)
    for depth in reversed(range(DEPTH)):
        delta = layers[depth][1](delta)
        if depth > 0:
            delta = delta * f.derivative(pre[depth - 1])
    return np.log(np.linalg.norm(delta, axis=1) / start)


def gaussian_layer(kernel):
    """Split one kernel (in, NETS * out), whose entries are independent, into one kernel (in, out) per net."""
    each = kernel.reshape(WIDTH, NETS, WIDTH).transpose(1, 0, 2)
    return (lambda h: (h[:, None] @ each)[:, 0]), (lambda delta: (each @ delta[:, :, None])[:, :, 0])


def orthogonal_layer(kernel, rng):
    """Return one kernel, turned by a signed permutation per net, which does not change its distribution."""
    order = rng.permuted(np.tile(np.arange(WIDTH), (NETS, 1)), axis=1)
    back = np.argsort(order, axis=1)
    sign_in, sign_out = rng.choice([-1.0, 1.0], size=(2, NETS, WIDTH))

    def forward(h):
        return (np.take_along_axis(h * sign_in, order, 1) @ kernel) * sign_out

    def backward(delta):
        return np.take_along_axis((delta * sign_out) @ kernel.T, back, 1) * sign_in

    return forward, backward


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_the_gradient_of_200_layers_does_an_unbiased_walk(framework, activation, weights):
    rng = np.random.default_rng(8)
    layers = []
    for layer in range(DEPTH):
        reads, depth = ("linear", None) if layer == 0 else (activation, DEPTH - 1)
        width_out = WIDTH * NETS if weights == "gaussian" else WIDTH
        kernel = framework.draw((WIDTH, width_out), 1000 + layer, reads, depth=depth, weights=weights)
        layers.append(gaussian_layer(kernel) if weights == "gaussian" else orthogonal_layer(kernel, rng))
    final = final_log_norms(layers, gradwalk.activation(activation), rng)
    assert abs(final.mean()) < 4 * final.std(ddof=1) / math.sqrt(NETS)
    assert final.std(ddof=1) < 3.0


# JAX and what is built on it.


def test_jax_half_precision_loses_no_variance(jax):
    from gradwalk.jax import random_walk

    for dtype in ("bfloat16", "float16"):
        values = random_walk(gain=1.0)(jax.random.key(0), (1000, 3000), dtype)
        assert values.dtype == dtype
        assert np.var(np.asarray(values, dtype=float)) * 1000 == pytest.approx(1.0, abs=4 * math.sqrt(2 / 3e6))
        orthogonal = random_walk(weights="orthogonal", dtype=dtype)(jax.random.key(0), (40, 30))
        assert orthogonal.dtype == dtype


def test_jax_weights_are_the_same_under_jit_and_vmap(jax):
    from gradwalk.jax import random_walk

    keys = jax.random.split(jax.random.key(1), 3)
    for weights in ("gaussian", "orthogonal"):
        init = random_walk("relu", weights=weights)
        plain = np.stack([init(key, (20, 30)) for key in keys])
        mapped = jax.jit(jax.vmap(lambda key, init=init: init(key, (20, 30))))(keys)
        np.testing.assert_allclose(mapped, plain, atol=1e-5)
        np.testing.assert_array_equal(init(jax.random.PRNGKey(7), (20, 30)), init(jax.random.key(7), (20, 30)))


def test_jax_counts_the_axes_as_he_normal_does(jax):
    from gradwalk.jax import random_walk

    axes = {"in_axis": 0, "out_axis": (1, 3), "batch_axis": 2}
    shape = (50, 12, 4, 10, 3)  # in, out, batch, out, receptive field
    he = jax.nn.initializers.variance_scaling(1.0, "fan_in", "normal", **axes)
    key = jax.random.key(2)
    np.testing.assert_allclose(random_walk(gain=1.0, **axes)(key, shape), he(key, shape), rtol=1e-5)
    kernel = np.asarray(random_walk(gain=1.0, weights="orthogonal", **axes)(key, shape))
    matrices = kernel.transpose(2, 0, 4, 1, 3).reshape(4, 150, 120)
    grams = matrices.transpose(0, 2, 1) @ matrices
    np.testing.assert_allclose(grams, np.broadcast_to(np.eye(120), grams.shape), atol=1e-5)
    assert abs(np.corrcoef(matrices[0].ravel(), matrices[1].ravel())[0, 1]) < 4 / math.sqrt(150 * 120)


def test_jax_orthogonal_weights_are_those_of_jax_itself(jax):
    from gradwalk.jax import random_walk

    for shape in ((20, 30), (3, 3, 8, 16)):
        ours = random_walk(gain=1.0, weights="orthogonal")(jax.random.key(3), shape)
        theirs = jax.nn.initializers.orthogonal(math.sqrt(max(1, shape[-1] / fan_in(shape))))(jax.random.key(3), shape)
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((0, 3), {}, r"fan-in must be at least 1, got shape=\(0, 3\)"),
        ((4, 3), {"in_axis": 1}, "must name different axes"),
        ((4, 3), {"in_axis": 4}, "must name different axes"),
        ((4, 3), {"dtype": "int32"}, "dtype must be a real floating-point type, got dtype=int32"),
    ],
)
def test_jax_refuses_bad_shapes_in_one_sentence(jax, shape, options, message):
    from gradwalk.jax import random_walk

    with pytest.raises(ValueError, match=message):
        random_walk(**options)(jax.random.key(0), shape)


def test_jax_passes_a_sharding_on(jax):
    from gradwalk.jax import random_walk

    mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Explicit,))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x", None))
    assert random_walk("relu")(jax.random.key(0), (4, 3), out_sharding=sharding).sharding == sharding
    with pytest.raises(NotImplementedError, match="leave out out_sharding="):
        random_walk("relu", weights="orthogonal")(jax.random.key(0), (4, 3), out_sharding=sharding)


def assert_relu_kernel(kernel):
    """Check that a kernel has the variance of a layer that reads a relu."""
    values = np.asarray(kernel, dtype=float)
    n = fan_in(values.shape)
    assert np.mean(values**2) * n == pytest.approx(gradwalk.gain("relu", n) ** 2, rel=4 * math.sqrt(2 / values.size))


def test_flax_linen_layers_take_it(jax):
    linen = pytest.importorskip("flax.linen", reason="flax is not installed")
    from gradwalk.jax import random_walk

    dense = linen.Dense(80, kernel_init=random_walk("relu"), param_dtype="bfloat16")
    conv = linen.Conv(60, (3, 5), kernel_init=random_walk("relu"))
    assert_relu_kernel(dense.init(jax.random.key(0), np.ones((1, 120)))["params"]["kernel"])
    assert_relu_kernel(conv.init(jax.random.key(1), np.ones((1, 9, 9, 7)))["params"]["kernel"])


def test_flax_nnx_layers_take_it(jax):
    nnx = pytest.importorskip("flax.nnx", reason="flax is not installed")
    from gradwalk.jax import random_walk

    rngs = nnx.Rngs(0)
    dense = nnx.Linear(120, 80, kernel_init=random_walk("relu"), rngs=rngs)
    conv = nnx.Conv(7, 60, (3, 5), kernel_init=random_walk("relu"), rngs=rngs)
    assert_relu_kernel(dense.kernel[...])
    assert_relu_kernel(conv.kernel[...])


def test_equinox_layers_take_it_with_the_axes_swapped(jax):
    equinox = pytest.importorskip("equinox", reason="equinox is not installed")
    from gradwalk.jax import random_walk

    init = random_walk("relu", in_axis=1, out_axis=0)
    layers = (
        equinox.nn.Linear(120, 80, key=jax.random.key(0)),
        equinox.nn.Conv2d(7, 60, (3, 5), key=jax.random.key(0)),
    )
    for layer in layers:
        new = equinox.tree_at(lambda each: each.weight, layer, init(jax.random.key(1), layer.weight.shape))
        assert_relu_kernel(np.moveaxis(new.weight, (0, 1), (-1, -2)))


# Keras.


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


# Activations as functions of the frameworks.


def jax_functions(jax):
    names = {"soft_sign": "softsign", "identity": "linear", "leaky_relu": "leaky_relu(0.01)"}
    same = ("relu", "tanh", "sigmoid", "softplus", "elu", "selu", "gelu", "silu", "mish", "hard_tanh")
    known = [*names, *same, "swish"]
    return {getattr(jax.nn, name): names.get(name, name) for name in known} | {jax.numpy.sin: "sin"}


def test_jax_functions_are_known_and_compute_what_their_counterpart_computes(jax):
    x = np.linspace(-3, 3, 25)
    for function, name in jax_functions(jax).items():
        f = activations.in_framework(function, "jax")
        assert f is gradwalk.activation(name)
        np.testing.assert_allclose(f.f(x), function(jax.numpy.asarray(x)), atol=1e-3)  # jax.nn.gelu has the tanh form


def test_jax_takes_functions_with_their_parameter(jax):
    from gradwalk.jax import random_walk

    key = jax.random.key(0)
    steep = functools.partial(jax.nn.leaky_relu, negative_slope=0.5)
    for given, name in ((jax.nn.relu, "relu"), (steep, "leaky_relu(0.5)")):
        np.testing.assert_array_equal(random_walk(given)(key, (40, 30)), random_walk(name)(key, (40, 30)))
    with pytest.raises(TypeError, match=r"random_walk: activation must be a name, a function that gradwalk knows"):
        random_walk(jax.numpy.cos)


def test_a_registered_activation_brings_its_function_of_jax(jax):
    from gradwalk.jax import random_walk

    def cubed(a):
        return a + a**3 / 10

    gradwalk.register("cubed_in_jax", lambda a: a + a**3 / 10, jax=cubed)
    key = jax.random.key(0)
    ours = random_walk(cubed, depth=3)(key, (40, 30))
    np.testing.assert_array_equal(ours, random_walk("cubed_in_jax", depth=3)(key, (40, 30)))


def test_a_registered_activation_brings_its_function_of_keras_and_is_saved_by_name(keras):
    from gradwalk.keras import RandomWalk

    def cubed(a):
        return a + a**3 / 10

    gradwalk.register("cubed_in_keras", lambda a: a + a**3 / 10, keras=cubed)
    init = RandomWalk(cubed, depth=3, seed=1)
    assert init.get_config()["activation"] == "cubed_in_keras"
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(init))
    np.testing.assert_array_equal(*(keras.ops.convert_to_numpy(each((4, 3))) for each in (init, again)))


# Without a framework.


def error_without(missing, package, **environment):
    """Return the last line that importing gradwalk.package prints when a module is missing."""
    code = f"import sys; sys.modules[{missing!r}] = None; import gradwalk.{package}"
    environment = {**os.environ, **environment}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    return result.stderr.strip().splitlines()[-1]


def test_without_jax_the_install_is_named():
    assert error_without("jax", "jax").endswith("Error: gradwalk.jax needs JAX: pip install 'gradwalk[jax]'")


def test_without_keras_the_install_is_named():
    message = error_without("keras", "keras")
    assert "Error: gradwalk.keras needs Keras and a backend for it, and keras is missing: pip install" in message
    assert "'gradwalk[keras]'" in message


def test_keras_without_its_backend_names_the_install(keras):
    assert "and tensorflow is missing" in error_without("tensorflow", "keras", KERAS_BACKEND="tensorflow")

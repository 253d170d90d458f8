"""One contract for the initialisers of torch, JAX and Keras."""

import math
import os
import random
import subprocess
import sys

import numpy as np
import pytest
from helpers.kernels import fan_in
from scipy import stats

import gradwalk

# Keras converts its variables to arrays as NumPy 1 required.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")

# Kernels as JAX and Keras shape them: (in, out) and (kernel..., in, out).
SHAPES = [(300, 170), (120, 410), (3, 5, 16, 70)]
DEPTH, WIDTH, NETS = 200, 30, 64


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


@pytest.fixture
def _draws_optimised(framework, weights):
    """Let JAX optimise the code of Gaussian draws, as it does for users: twelve million take longer than compiling."""
    jax = sys.modules.get("jax")
    if jax is None or weights != "gaussian":
        yield
        return
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.mark.usefixtures("_draws_optimised")
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
    predicted = gradwalk.solve_gain(activation, WIDTH, DEPTH - 1, weights=weights).spread
    assert abs(final.mean()) < 4 * final.std(ddof=1) / math.sqrt(NETS)
    assert final.std(ddof=1) == pytest.approx(predicted, rel=4 / math.sqrt(2 * NETS))


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


def test_keras_without_its_backend_names_the_install():
    pytest.importorskip("keras", reason="keras is not installed")
    assert "and tensorflow is missing" in error_without("tensorflow", "keras", KERAS_BACKEND="tensorflow")

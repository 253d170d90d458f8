"""The initialiser of JAX, in the libraries that are built on JAX, and its activations."""

import functools
import math

import numpy as np
import pytest
from helpers.kernels import assert_relu_kernel, fan_in

import gradwalk
from gradwalk import activations


@pytest.fixture
def jax():
    return pytest.importorskip("jax", reason="jax is not installed")


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
    from gradwalk.jax import Leak, random_walk

    key = jax.random.key(0)
    steep = functools.partial(jax.nn.leaky_relu, negative_slope=0.5)
    leaking, deep = Leak(jax.nn.gelu, 0.8), functools.partial(random_walk, depth=9)
    for given, name in ((jax.nn.relu, "relu"), (steep, "leaky_relu(0.5)"), (leaking, "gelu@0.8")):
        np.testing.assert_array_equal(deep(given)(key, (40, 30)), deep(name)(key, (40, 30)))
    with pytest.raises(TypeError, match=r"random_walk: activation must be a name, a function that gradwalk knows"):
        random_walk(jax.numpy.cos)


def test_a_leak_is_a_function_of_jax_with_its_gradient(jax):
    from gradwalk.jax import Leak

    a, leak = np.linspace(-2.0, 2.0, 9, dtype=np.float32), Leak(jax.nn.gelu, 0.8)
    np.testing.assert_allclose(jax.jit(leak)(a), 0.8 * a + 0.2 * jax.nn.gelu(a), rtol=1e-6)
    slopes = jax.vmap(jax.grad(leak))(a)
    np.testing.assert_allclose(slopes, gradwalk.activation("gelu@0.8").derivative(a), atol=1e-3)  # by tanh
    with pytest.raises(ValueError, match="Leak: leak must be at least 0 and below 1"):
        Leak(jax.nn.gelu, 1.0)
    with pytest.raises(TypeError, match="Leak: activation must be a function"):
        Leak("gelu", 0.5)


def test_a_registered_activation_brings_its_function_of_jax(jax):
    from gradwalk.jax import random_walk

    def cubed(a):
        return a + a**3 / 10

    gradwalk.register("cubed_in_jax", lambda a: a + a**3 / 10, jax=cubed)
    key = jax.random.key(0)
    ours = random_walk(cubed, depth=3)(key, (40, 30))
    np.testing.assert_array_equal(ours, random_walk("cubed_in_jax", depth=3)(key, (40, 30)))

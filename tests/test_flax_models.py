"""gradwalk.jax.plan, init and init_variables: chains are drawn by their law, and what has none is left alone."""

import math
from functools import partial

import numpy as np
import pytest
from helpers.reports import reporting

import gradwalk as gw
from gradwalk.plans import LayerRole

jax = pytest.importorskip("jax", reason="jax is not installed")
flax = pytest.importorskip("flax", reason="flax is not installed")
import jax.numpy as jnp  # noqa: E402
from flax import linen, nnx  # noqa: E402

from gradwalk.activations import BUILT_IN  # noqa: E402
from gradwalk.activations.lookup import _target  # noqa: E402
from gradwalk.jax import Leak, init, init_variables, plan  # noqa: E402
from gradwalk.jax.elementwise import POINTS, identified  # noqa: E402

WIDTH, DEPTH, SEEDS = 32, 8, 16
X = jnp.ones((1, WIDTH))


def linear(width_in=WIDTH, width_out=WIDTH):
    return nnx.Linear(width_in, width_out, rngs=nnx.Rngs(0))


def chain(activation=nnx.relu, dropout=0.0, depth=DEPTH, seed=1):
    parts, rngs = [linear()], nnx.Rngs(seed)  # one source for all masks, which would be alike otherwise
    for _ in range(depth):
        parts += [activation, *[nnx.Dropout(dropout, rngs=rngs)] * bool(dropout), linear()]
    return nnx.Sequential(*parts)


class Model(nnx.Module):
    """Parts by name, and a function that wires them."""

    def __init__(self, wire, **parts):
        self.wire = wire
        for name, part in parts.items():
            setattr(self, name, part)

    def __call__(self, x):
        return self.wire(self, x)


@partial(jax.jit, static_argnums=0)
def final_log_norm(graph, state, x, delta):
    """Return ln of the norm of the gradient at the input, for this gradient at the output."""
    gradient = jax.vjp(lambda x, state: nnx.merge(graph, state)(x), x, state)[1](delta)[0]
    return jnp.log(jnp.linalg.norm(gradient) / jnp.linalg.norm(delta))


@pytest.mark.parametrize(("activation", "dropout"), [("relu", 0.0), ("tanh", 0.0), ("relu", 0.4)])
def test_the_gradient_of_a_flax_chain_does_an_unbiased_walk(activation, dropout):
    finals = []
    for seed in range(SEEDS):
        model = chain(getattr(nnx, activation), dropout, seed=seed)
        applied = init(model, X, seed=seed)
        x, delta = np.random.default_rng(seed).standard_normal((2, 1, WIDTH)).astype(np.float32)
        graph, state = nnx.split(model)
        finals.append(float(final_log_norm(graph, state, x, delta)))
    expected = gw.solve_gain(activation, WIDTH, DEPTH, dropout=dropout).value
    assert [row.gain for row in applied.rows] == [gw.gain("linear", WIDTH), *[expected] * DEPTH]
    assert abs(np.mean(finals)) < 4 * np.std(finals, ddof=1) / math.sqrt(SEEDS)


def test_the_plan_of_a_deep_flax_chain_predicts_how_many_directions_pass():
    predicted = plan(chain(nnx.tanh, depth=12), X, weights="orthogonal")
    gains = [row.gain for row in predicted.rows]
    sampled = gw.directions("tanh", [WIDTH] * 13, weights="orthogonal", gain=gains[1:], networks=128)
    assert predicted.directions == pytest.approx(sampled.backward)
    assert f"{predicted.directions:.1f} directions of 32 are predicted to pass backward" in str(predicted)


def test_nothing_is_predicted_of_flax_chains_with_dropout_or_few_layers():
    assert math.isnan(plan(chain(dropout=0.1, depth=12), X).directions)
    assert math.isnan(plan(chain(depth=8), X).directions)


@pytest.mark.parametrize("family", [each for each in BUILT_IN if each.jax], ids=lambda each: each.name)
def test_activations_are_identified_by_their_values(family):
    for counterpart in family.jax:
        function = identified(_target(counterpart)(POINTS))
        if family.name == "linear":
            assert function == (None, 1.0)
        else:
            np.testing.assert_array_equal(function.activation.f(POINTS), family.member().f(POINTS))


@pytest.mark.parametrize("leak", [0.1, 0.8, 0.97, 0.995])
@pytest.mark.parametrize("name", ["gelu", "silu", "mish", "tanh", "selu", "elu", "softsign", "relu6"])
def test_leaks_are_identified_by_their_values(name, leak):
    values = Leak(getattr(jax.nn, {"softsign": "soft_sign"}.get(name, name)), leak)(jnp.asarray(POINTS))
    assert identified(values).activation is gw.activation(name).leaking(leak)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (partial(nnx.leaky_relu, negative_slope=0.3), "leaky_relu(0.3)"),
        (partial(nnx.elu, alpha=0.5), "elu(0.5)"),
        (partial(nnx.celu, alpha=0.5), "celu(0.5)"),
        (lambda x: x * jax.nn.sigmoid(x), "silu"),
        (lambda x: jnp.where(x > 0, x, 0), "relu"),
        (Leak(nnx.gelu, 0.8), "gelu@0.8"),
        (Leak(nnx.relu, 0.8), "leaky_relu(0.8)"),
        (lambda x: 0.93 * x + 0.07 * jnp.tanh(x), "tanh@0.93"),
        (lambda x: jnp.tanh(x.reshape(2, -1)).reshape(x.shape), "tanh"),
    ],
)
def test_what_a_flax_layer_reads_is_found_through_any_spelling(function, name):
    assert plan(nnx.Sequential(linear(), function, linear()), X).row("layers.2").activation == name


def test_norms_sums_and_unknown_functions_have_their_reasons():
    def wire(model, x):
        x = model.behind(nnx.relu(model.norm(model.before(x))))
        x = jnp.mean(jnp.tanh(x).reshape(1, 4, 8), axis=1)
        x = model.one(x) + model.two(jnp.cos(x) * 3)
        return model.head(x)

    model = Model(
        wire,
        before=linear(),
        norm=nnx.LayerNorm(WIDTH, rngs=nnx.Rngs(0)),
        behind=linear(),
        one=linear(8, 8),
        two=linear(8, 8),
        head=linear(8, 3),
    )
    rows = plan(model, X)
    assert rows.row("before").reason == "a norm follows, so that its scale does not change the signal"
    assert (rows.row("behind").role, rows.row("behind").activation) == (LayerRole.OUTSIDE, "relu")
    assert rows.row("one").reason == "its output goes into a sum"
    assert rows.row("two").reason == "it reads the output of a function that gradwalk does not know"
    assert rows.row("head").reason == "it reads the output of a sum"
    assert [left.kind for left in rows.left_alone] == ["LayerNorm"]
    named = plan(model, X, only=["one", "two"], activation={"two": "tanh"})
    assert [(row.name, row.activation) for row in named.drawn] == [("one", "tanh"), ("two", "tanh")]
    assert named.row("one").drift == pytest.approx(-0.5 * math.log(4))


def test_frozen_zero_shared_and_repeated_layers_of_flax_are_left_alone():
    class Frozen(nnx.Variable):
        pass

    repeated, shared = linear(), linear()
    model = nnx.Sequential(
        linear(), nnx.relu, linear(), nnx.relu, repeated, nnx.relu, repeated, linear(), linear(), shared
    )
    model.layers[2].kernel = Frozen(model.layers[2].kernel[...])
    model.layers[7].kernel[...] = 0 * model.layers[7].kernel[...]
    model.layers[8].kernel = shared.kernel
    reasons = [row.reason for row in plan(model, X).rows]
    assert reasons == [
        "layers.2 above it is outside the theory",
        "frozen",
        "it runs more than once",
        "zero on purpose",
        "its weights are shared",
        "its weights are shared",
    ]
    assert "No layer is drawn" in str(plan(model, X))


def test_unknown_modules_residual_sums_and_small_layers_of_flax_are_left_alone():
    class Own(nnx.Module):
        def __init__(self):
            self.matrix = nnx.Param(jnp.eye(WIDTH))

        def __call__(self, x):
            return x @ self.matrix[...]

    class Standardised(nnx.Linear):
        def __call__(self, x):
            return x @ (self.kernel[...] / jnp.std(self.kernel[...]))

    class Residual(nnx.Module):
        def __init__(self):
            self.up, self.down = linear(), linear()

        def __call__(self, x):
            return x + self.down(nnx.relu(self.up(x)))

    for between, kind in ((Own(), "Own"), (Standardised(WIDTH, WIDTH, rngs=nnx.Rngs(0)), "Standardised")):
        rows = plan(nnx.Sequential(linear(), nnx.relu, between, nnx.relu, linear()), X)
        assert rows.drawn == ()
        assert [(left.kind, left.why) for left in rows.left_alone] == [(kind, "gradwalk does not know this module")]
    residual = init(nnx.Sequential(linear(), Residual(), Residual(), linear()), X)
    assert residual.drawn == ()
    assert residual.row("layers.1.down").reason == "its output goes into a sum"
    model = nnx.Sequential(*(each for _ in range(4) for each in (linear(), nnx.relu)))
    model.layers[2].kernel[...] = 0.01 * model.layers[2].kernel[...]
    before = np.array(model.layers[2].kernel[...])
    assert init(model, X).row("layers.2").reason.startswith("scaled on purpose: its gain is")
    np.testing.assert_array_equal(model.layers[2].kernel[...], before)


def test_convolutions_of_flax_have_their_fan_in_and_attention_is_left_alone():
    def wire(model, x):
        x = model.grouped(x).reshape(1, -1, 8)
        return model.head(nnx.softmax(model.attention(x)))

    rngs = nnx.Rngs(0)
    model = Model(
        wire,
        grouped=nnx.Conv(4, 8, (1, 1), feature_group_count=2, rngs=rngs),
        attention=nnx.MultiHeadAttention(2, 8, decode=False, dropout_rate=0.1, rngs=rngs),
        head=nnx.LinearGeneral(8, (2, 3), rngs=rngs),
    )
    image = jnp.ones((1, 4, 4, 4))
    rows = plan(model, image)
    assert rows.row("grouped").reason == "its output goes into attention (MultiHeadAttention)"
    assert [left.why for left in rows.left_alone] == ["attention is outside the theory"]
    drawn = init(model, image, "linear", only=["grouped", "head"], weights="orthogonal", seed=1)
    assert [row.gain for row in drawn.rows] == [gw.gain("linear", n, weights="orthogonal") for n in (2, 8)]
    group = np.array(model.grouped.kernel[...])[0, 0, :, 4:]
    np.testing.assert_allclose(group @ group.T, 2 * np.eye(2), atol=1e-5)


def test_linen_variables_are_replaced_and_the_rest_is_kept():
    class Net(linen.Module):
        @linen.compact
        def __call__(self, x):
            x = linen.LayerNorm()(linen.relu(linen.Dense(WIDTH)(x)))
            x = linen.Dense(WIDTH, bias_init=linen.initializers.constant(0.5))(x)
            return linen.Dense(2, name="out", bias_init=linen.initializers.normal())(linen.gelu(x))

    net = Net()
    variables = net.init(jax.random.key(0), X)
    drawn, applied = init_variables(net, variables, X, seed=2)
    assert [row.name for row in applied.drawn] == ["Dense_1", "out"]
    for name in ("Dense_0", "LayerNorm_0"):
        jax.tree.map(np.testing.assert_array_equal, drawn["params"][name], variables["params"][name])
    assert (np.array(drawn["params"]["out"]["bias"]) == 0).all()
    assert (np.array(drawn["params"]["Dense_1"]["bias"]) == 0.5).all()
    std = float(np.std(drawn["params"]["Dense_1"]["kernel"]))
    assert std == pytest.approx(applied.row("Dense_1").proposed, rel=4 / math.sqrt(2 * WIDTH**2))
    assert plan(net, X, variables=variables) == applied


def test_a_seed_repeats_the_weights_and_layers_differ():
    model = chain(depth=1)
    init(model, X, seed=5)
    one = [np.array(model.layers[i].kernel[...]) for i in (0, 2)]
    init(model, X, seed=5)
    np.testing.assert_array_equal(one[0], model.layers[0].kernel[...])
    assert abs(np.corrcoef(one[0].ravel(), one[1].ravel())[0, 1]) < 4 / WIDTH


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plan(chain(depth=1), jnp.ones((1, 3))), "plan: the model does not run on the example"),
        (lambda: plan(linen.Dense(3), X), "plan: a linen module has its weights outside; pass variables="),
        (lambda: plan(3, X), "plan: model must be a module of flax.nnx or flax.linen, got int"),
        (lambda: init(linen.Dense(3), X), "init: model must be an nnx module, got Dense"),
        (
            lambda: init_variables(chain(depth=1), {}, X),
            "init_variables: module must be a linen module, got",
        ),
        (lambda: init_variables(linen.Dense(3), None, X), "init_variables: a linen module has its weights outside"),
        (lambda: init(chain(depth=1), X, seed="x"), "init: seed must be a whole number, got seed='x'"),
        (lambda: init(chain(depth=1), X, "rellu"), "init: there is no activation 'rellu'; did you mean 'relu'?"),
        (lambda: plan(chain(depth=1), X, activation=3), "plan: "),
        (lambda: init(chain(depth=1), X, weights="x"), "init: weights must be"),
        (lambda: init(chain(depth=1), X, only="x"), "init: only='x' matches no weight layer; there are layers.0"),
        (lambda: plan(nnx.LayerNorm(4, rngs=nnx.Rngs(0)), jnp.ones((1, 4))), "has no weight layer that gradwalk knows"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(call, message):
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_init_and_init_variables_report_every_layer_that_they_draw(monkeypatch):
    with reporting(monkeypatch) as reports:
        assert len(init(chain(), X).drawn) == reports.count == DEPTH + 1
    module = linen.Sequential([linen.Dense(WIDTH), linen.relu, linen.Dense(WIDTH)])
    variables = module.init(jax.random.key(0), X)
    with reporting(monkeypatch) as reports:
        assert len(init_variables(module, variables, X)[1].drawn) == reports.count == 2

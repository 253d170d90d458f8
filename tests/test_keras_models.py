"""gradwalk.keras.plan and init: chains are drawn by their law, and what has none is left alone."""

import math
from functools import partial

import numpy as np
import pytest
from helpers.reports import reporting

import gradwalk as gw
from gradwalk.plans import LayerRole

keras = pytest.importorskip("keras", reason="keras is not installed")
jax = pytest.importorskip("jax", reason="jax is not installed")
from keras import layers  # noqa: E402

from gradwalk.keras import RandomWalk, init, plan  # noqa: E402

# Keras converts its variables to arrays as NumPy 1 required.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy:DeprecationWarning")

WIDTH, DEPTH, SEEDS = 32, 8, 16


class Noise(keras.initializers.Initializer):
    """Glorot's normal weights from NumPy: JAX would compile them for each shape."""

    def __call__(self, shape, dtype=None):
        fans = math.prod(shape[:-1]) + math.prod(shape[:-2]) * shape[-1]
        return np.random.default_rng(0).normal(0, math.sqrt(2 / fans), shape).astype(np.float32)


Dense = partial(layers.Dense, kernel_initializer=Noise())
Conv2D = partial(layers.Conv2D, kernel_initializer=Noise())


def chain(activation="relu", dropout=0.0, width=WIDTH, depth=DEPTH):
    """Return a chain of depth + 1 layers."""
    parts = [keras.Input((width,)), Dense(width, activation, name="first")]
    for _ in range(depth - 1):
        parts += [layers.Dropout(dropout)] * bool(dropout) + [Dense(width, activation)]
    return keras.Sequential([*parts, *[layers.Dropout(dropout)] * bool(dropout), Dense(width, name="last")])


def final_log_norm(model, seed, training=False):
    """Return ln of the norm of the gradient at the input, for a random gradient of unit length at the output."""
    values = [variable.value for variable in model.trainable_variables]
    others = [variable.value for variable in model.non_trainable_variables]
    rng = np.random.default_rng(seed)
    x, delta = rng.standard_normal((2, 1, WIDTH)).astype(np.float32)

    def output(x):
        return model.stateless_call(values, others, x, training=training)[0]

    gradient = jax.vjp(output, x)[1](delta / np.linalg.norm(delta))[0]
    return float(np.log(np.linalg.norm(gradient)))


def assert_unbiased(finals):
    finals = np.array(finals)
    assert abs(finals.mean()) < 4 * finals.std(ddof=1) / math.sqrt(len(finals))


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_the_gradient_of_a_keras_chain_does_an_unbiased_walk(activation, weights):
    model, finals = chain(activation), []
    for seed in range(SEEDS):
        applied = init(model, weights=weights, seed=seed)
        finals.append(final_log_norm(model, seed))
    assert [row.proposed is not None for row in applied.rows] == [True] * (DEPTH + 1)
    assert_unbiased(finals)


def test_dropout_is_counted_in_keras():
    model = chain("relu", dropout=0.4, depth=8)
    finals = []
    for seed in range(SEEDS):
        applied = init(model, seed=seed)
        finals.append(final_log_norm(model, seed, training=True))
    assert applied.row("last").gain == gw.gain("relu", WIDTH, dropout=0.4)
    assert_unbiased(finals)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_keras_and_torch_give_a_chain_the_same_gains(activation):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    import gradwalk.torch as gwt

    module = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}[activation]
    parts = [part for _ in range(4) for part in (torch.nn.Linear(WIDTH, WIDTH), module())]
    report = gwt.init_(torch.nn.Sequential(*parts, torch.nn.Linear(WIDTH, WIDTH)))
    rows = plan(chain(activation, depth=4)).rows
    assert [row.gain for row in rows] == pytest.approx([layer.gain for layer in report.rows])


def test_the_plan_of_a_deep_keras_chain_predicts_how_many_directions_pass():
    predicted = plan(chain("tanh", depth=12), weights="orthogonal")
    gains = [row.gain for row in predicted.rows]
    sampled = gw.directions("tanh", [WIDTH] * 13, weights="orthogonal", gain=gains[1:], networks=128)
    assert predicted.directions == pytest.approx(sampled.backward)
    assert f"{predicted.directions:.1f} directions of 32 are predicted to pass backward." in str(predicted)
    assert "gradwalk.advise ranks what helps" in str(plan(chain(depth=60, width=8)))


@pytest.mark.parametrize(
    "model",
    [
        lambda: chain(depth=8),
        lambda: chain(dropout=0.1, depth=12),
        lambda: keras.Sequential([keras.Input((8, 8, 4)), *[Conv2D(4, 1, activation="relu") for _ in range(12)]]),
        lambda: keras.Sequential([keras.Input((8,)), *[Dense(8, ("relu", "tanh")[i % 2]) for i in range(12)]]),
        lambda: chain_with_skip(12),
    ],
    ids=["shallow", "dropout", "convolutions", "two activations", "skip"],
)
def test_directions_are_predicted_of_deep_dense_chains_only(model):
    assert math.isnan(plan(model()).directions)


def chain_with_skip(depth):
    x = keras.Input((8,))
    y = Dense(8, "relu")(x)
    for _ in range(depth):
        y = Dense(8, "relu")(y)
    return keras.Model(x, Dense(8)(layers.Add()([x, y])))


def test_a_plan_changes_nothing_and_a_seed_repeats_the_weights():
    model = chain(depth=2)
    before = [w.copy() for w in model.get_weights()]
    assert "first" in str(plan(model))
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    init(model, seed=3)
    drawn = model.get_weights()
    init(model, seed=3)
    for one, two in zip(drawn, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(drawn[0], drawn[2])


def test_a_layer_behind_a_norm_has_the_gain_of_one_step_and_one_before_it_is_left_alone():
    x = keras.Input((6, 6, 4))
    y = Conv2D(8, 3, use_bias=False, name="before")(x)
    y = layers.ReLU()(layers.BatchNormalization()(y))
    y = Conv2D(8, 3, padding="same", name="behind")(y)
    y = Dense(3, "softmax", name="head")(layers.GlobalAveragePooling2D()(keras.ops.tanh(y)))
    rows = plan(keras.Model(x, y))
    assert rows.row("before").reason == "a norm follows, so that its scale does not change the signal"
    behind = rows.row("behind")
    assert (behind.role, behind.activation, behind.drift) == (LayerRole.NORMED, "relu", None)
    assert behind.notes == ("padding: not counted",)
    assert behind.gain == gw.gain("relu", 72)
    assert rows.row("head").activation == "tanh"
    assert rows.row("head").drift == pytest.approx(-0.5 * math.log(16))
    assert [(left.name, left.kind) for left in rows.left_alone] == [("batch_normalization", "BatchNormalization")]


def test_sums_attention_and_what_is_below_them_are_left_alone():
    x = keras.Input((5, 16))
    h = Dense(16, "relu", name="stem")(x)
    a = layers.MultiHeadAttention(2, 8, kernel_initializer=Noise(), name="attention")(h, h)
    y = Dense(16, name="into_sum")(Dense(32, "gelu", name="up")(layers.LayerNormalization()(a)))
    y = Dense(4, name="head")(layers.LayerNormalization()(y + h))
    rows = plan(keras.Model(x, y))
    assert rows.row("stem").reason.startswith("its output goes into")
    assert "goes into add" in rows.row("into_sum").reason
    assert rows.row("up").reason == "into_sum above it is outside the theory"
    assert rows.row("head").gain == gw.gain("linear", 16)
    assert ("attention", "attention is outside the theory") in [(left.name, left.why) for left in rows.left_alone]


def test_frozen_zero_small_and_shared_layers_are_left_alone_unless_named():
    shared = Dense(WIDTH, "relu", name="shared")
    x = keras.Input((WIDTH,))
    y = Dense(WIDTH, name="frozen", trainable=False)(x)
    y = shared(shared(Dense(WIDTH, "relu", name="plain")(y)))
    y = layers.Dense(WIDTH, "relu", kernel_initializer="zeros", name="zero")(y)
    y = layers.Dense(WIDTH, "relu", kernel_initializer=RandomWalk(gain=0.02, seed=0), name="small")(y)
    model = keras.Model(x, Dense(2, name="head")(y))
    reasons = {row.name: row.reason for row in plan(model).rows}
    assert (reasons["frozen"], reasons["shared"], reasons["zero"]) == (
        "frozen",
        "it runs more than once",
        "zero on purpose",
    )
    assert reasons["small"].startswith("scaled on purpose: its gain is 0.02")
    assert reasons["plain"] == reasons["head"] == ""
    named = plan(model, only=["zero", "s*"])
    assert {row.name for row in named.drawn} == {"zero", "small", "shared"}


class Own(layers.Layer):
    """A layer that gradwalk does not know, with a kernel of its own."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], WIDTH), initializer=Noise())

    def call(self, x):
        return keras.ops.matmul(x, self.kernel)


class Standardised(layers.Dense):
    """A Dense layer that computes other weights."""

    def call(self, x):
        return keras.ops.matmul(x, self.kernel / keras.ops.std(self.kernel))


def between(*parts):
    return keras.Sequential([keras.Input((WIDTH,)), Dense(WIDTH, "relu", name="a"), *parts, Dense(2, name="b")])


def test_unknown_layers_subclasses_and_adapters_are_left_alone_and_so_is_what_is_around_them():
    rows = init(between(Own(name="own")))
    assert rows.drawn == ()
    assert [(left.kind, left.why) for left in rows.left_alone] == [("Own", "gradwalk does not know this layer")]
    model = between(Standardised(WIDTH, name="own", kernel_initializer=Noise()))
    rows = init(model)
    assert rows.drawn == ()
    reasons = {row.name.rpartition("/")[2]: row.reason for row in rows.rows}
    assert reasons["own"] == "its class has a call of its own, which may compute other weights"
    model = between(Dense(WIDTH, "relu", name="adapted"))
    model.get_layer("adapted").enable_lora(2)
    rows = init(model)
    assert rows.row("adapted").reason == "it has an adapter (LoRA)"
    assert rows.row("a").reason == "adapted above it is outside the theory"


def test_residual_sums_of_keras_are_left_alone():
    x = keras.Input((WIDTH,))
    y = Dense(WIDTH, name="stem")(x)
    for n in range(2):
        y = layers.Add()([y, Dense(WIDTH, name=f"down{n}")(Dense(WIDTH, "relu", name=f"up{n}")(y))])
    model = keras.Model(x, Dense(2, name="head")(y))
    before = model.get_weights()
    assert init(model).drawn == ()
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_the_fan_in_of_an_einsum_layer_in_a_model_does_not_count_heads():
    x = keras.Input((5, WIDTH))
    y = layers.EinsumDense("abc,cde->abde", (None, 4, 8), name="heads", kernel_initializer=Noise())(x)
    row = plan(keras.Model(x, y)).row("heads")
    assert (row.gain, row.proposed) == (gw.gain("linear", WIDTH), gw.gain("linear", WIDTH) / math.sqrt(WIDTH))


def test_layers_are_chosen_by_name_pattern_and_type():
    model = keras.Sequential([keras.Input((6, 6, 2)), Conv2D(4, 3, name="conv"), layers.Flatten()])
    model = keras.Sequential([model.layers[0], layers.Flatten(), Dense(8, name="one"), Dense(2, name="two")])
    model.build((None, 6, 6, 2))
    assert [row.name for row in plan(model, only=layers.Dense).drawn] == ["one", "two"]
    assert [row.name for row in plan(model, skip="o*").drawn] == ["conv", "two"]
    with pytest.raises(ValueError, match="init: only='three' matches no weight layer; there are conv, one, two"):
        init(model, only="three")


def test_models_inside_models_are_read_and_activations_given_by_name():
    inner = keras.Sequential([keras.Input((8,)), Dense(8, "tanh", name="d")], name="inner")
    outer = keras.Sequential(
        [keras.Input((8,)), Dense(8, "relu"), inner, layers.Lambda(lambda x: x), Dense(2, name="out")]
    )
    rows = plan(outer, activation={"o*": "tanh"})
    assert rows.row("inner/d").activation == "relu"
    assert rows.row("out").activation == "tanh"
    assert plan(outer).row("out").reason.startswith("it reads the output of lambda")


def test_the_outputs_of_a_model_inside_another_keep_their_order():
    x = keras.Input((8,))
    shared = Dense(8, name="shared")(x)
    inner = keras.Model(x, [keras.ops.tanh(shared), keras.ops.relu(Dense(8, name="second")(x)), x], name="inner")
    one, two, three = inner(x)
    parts = [Dense(2, name=name)(part) for name, part in (("c", three), ("b", two), ("a", one))]
    rows = plan(keras.Model(x, parts))
    assert [rows.row(name).activation for name in "abc"] == ["tanh", "relu", "linear"]


def test_the_calls_of_a_subclassed_model_are_not_guessed():
    class Own(keras.Model):
        def __init__(self):
            super().__init__(name="own")
            self.inside = Dense(4, name="inside")

        def call(self, x):
            return self.inside(x)

    model = Own()
    model(np.zeros((1, 3)))
    before = np.array(model.inside.kernel)
    assert init(model).row("own/inside").reason == "the calls of this model cannot be read"
    np.testing.assert_array_equal(before, model.inside.kernel)
    assert init(model, only="own/inside", activation="relu", seed=0).row("own/inside").gain == gw.gain("relu", 3)
    assert not np.array_equal(before, model.inside.kernel)


def test_biases_become_zero_unless_they_were_set_on_purpose():
    model = keras.Sequential(
        [
            keras.Input((4,)),
            Dense(4, bias_initializer="random_normal"),
            Dense(4, bias_initializer=keras.initializers.Constant(0.5)),
        ]
    )
    init(model, seed=0)
    assert (np.array(model.layers[0].bias) == 0).all()
    assert (np.array(model.layers[1].bias) == 0.5).all()


def test_unreadable_input_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match=r"plan: .* is not built and has no weights yet"):
        plan(keras.Sequential([layers.Dense(3)]))
    with pytest.raises(TypeError, match=r"init: model must be a keras\.Model, got Dense"):
        init(layers.Dense(3))
    with pytest.raises(TypeError, match="init: seed must be an int"):
        init(chain(depth=1), seed="x")
    with pytest.raises(ValueError, match=r"^init: there is no activation 'rellu'; did you mean 'relu'\?"):
        init(chain(depth=1), "rellu")
    with pytest.raises(TypeError, match=r"^plan: activation must be a name"):
        plan(chain(depth=1), activation={"*": len})
    with pytest.raises(ValueError, match=r"^plan: weights must be"):
        plan(chain(depth=1), weights="x")


# Kernels of other orders.


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_the_fan_in_of_einsum_layers_and_attention_does_not_count_heads(weights):
    attention = layers.MultiHeadAttention(4, 16, kernel_initializer=RandomWalk("relu", weights=weights))
    x = keras.Input((5, 64))
    attention(x, x)
    for projection in (attention.query_dense, attention.value_dense, attention.output_dense):
        std = float(np.std(projection.kernel))
        assert std * 8 == pytest.approx(gw.gain("relu", 64, weights=weights), rel=4 / math.sqrt(2 * 64 * 64))


def test_depthwise_and_grouped_kernels_hold_orthogonal_matrices_per_channel_and_group():
    model = keras.Sequential(
        [
            keras.Input((5, 5, 4)),
            layers.DepthwiseConv2D(3, depth_multiplier=2, depthwise_initializer=Noise(), name="depthwise"),
            Conv2D(16, 1, groups=4, name="grouped"),
        ]
    )
    rows = init(model, weights="orthogonal", seed=0)
    assert [row.gain for row in rows.rows] == [
        pytest.approx(gw.gain("linear", n, weights="orthogonal")) for n in (9, 2)
    ]
    each = np.array(model.layers[0].kernel)[:, :, 1].reshape(9, 2)
    np.testing.assert_allclose(each.T @ each, np.eye(2), atol=1e-5)
    group = np.array(model.layers[1].kernel)[0, 0, :, 8:12]
    np.testing.assert_allclose(group @ group.T, 2 * np.eye(2), atol=1e-5)


def test_init_reports_every_layer_that_it_draws(monkeypatch):
    with reporting(monkeypatch) as reports:
        assert len(init(chain(), seed=0).drawn) == reports.count == DEPTH + 1

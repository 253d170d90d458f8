"""gradwalk.torch.find_layers: what each layer of a model reads, and what is left alone."""

import functools
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn.functional as F  # noqa: E402
from helpers.torch_models import Wired  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils import parametrize  # noqa: E402

import gradwalk.torch as gwt  # noqa: E402
from gradwalk.torch import Note  # noqa: E402
from gradwalk.torch.standin import passes_through  # noqa: E402
from gradwalk.torch.trace import Trace  # noqa: E402

# What a layer reads.


def square():
    return nn.Linear(6, 6)


def wired(wiring):
    return Wired(wiring, a=square(), b=square(), c=square())


def reads(model, **options):
    layers = gwt.find_layers(model, **options).weight_layers
    return {layer.name: layer.activation.name for layer in layers if layer.position}


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (nn.ReLU(), "relu"),
        (nn.LeakyReLU(0.2), "leaky_relu(0.2)"),
        (nn.Tanh(), "tanh"),
        (nn.Sigmoid(), "sigmoid"),
        (nn.Softplus(2.0), "softplus(2)"),
        (nn.ELU(0.5), "elu(0.5)"),
        (nn.SELU(), "selu"),
        (nn.GELU(approximate="tanh"), "gelu"),
        (nn.SiLU(), "silu"),
        (nn.Mish(), "mish"),
        (nn.Softsign(), "softsign"),
        (nn.Hardtanh(), "hard_tanh"),
        (nn.ReLU6(), "relu6"),
        (nn.Hardswish(), "hard_swish"),
        (nn.CELU(0.5), "celu(0.5)"),
        (nn.PReLU(), "leaky_relu(0.25)"),
        (nn.Identity(), "linear"),
        (nn.Sequential(nn.Dropout(), nn.ReLU(), nn.Flatten()), "relu"),
        (gwt.Steady(nn.SiLU(), 10.0), "silu*10"),
        (gwt.Leak(nn.SiLU(), 0.75), "silu@0.75"),
        (gwt.Leak(nn.ReLU(), 0.75), "leaky_relu(0.75)"),
        (gwt.Leak(gwt.Steady(nn.GELU(), 2.0), 0.5), "gelu*2@0.5"),
    ],
    ids=str,
)
def test_an_activation_module_is_known_and_computes_what_its_counterpart_computes(module, name):
    model = nn.Sequential(nn.Linear(4, 4), module, nn.Linear(4, 4))
    layer = gwt.find_layers(model).weight_layers[1]
    assert layer.activation.name == name
    a = torch.linspace(-2, 2, 9, dtype=torch.float64)
    values = module.double().eval()(a[None])[0].detach().numpy()
    np.testing.assert_allclose(values, layer.activation.f(a.numpy()), atol=1e-3)  # gelu's tanh form is 5e-4 off


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (F.relu, "relu"),
        (torch.relu, "relu"),
        (lambda x: x.relu(), "relu"),
        (torch.tanh, "tanh"),
        (lambda x: x.tanh(), "tanh"),
        (F.gelu, "gelu"),
        (lambda x: F.leaky_relu(x, 0.3), "leaky_relu(0.3)"),
        (lambda x: F.leaky_relu(x, negative_slope=0.3), "leaky_relu(0.3)"),
        (lambda x: F.elu(F.dropout(x, 0.5)), "elu"),
        (lambda x: F.hardtanh(x), "hard_tanh"),
        (F.relu6, "relu6"),
        (F.hardswish, "hard_swish"),
        (lambda x: F.celu(x, alpha=0.5), "celu(0.5)"),
        (lambda x: F.silu(x).reshape(x.shape[0], -1), "silu"),
        (lambda x: F.relu(x, inplace=True).view(-1, 6).unsqueeze(0).squeeze(0), "relu"),
    ],
)
@pytest.mark.parametrize("example", [None, torch.ones(2, 6)], ids=["traced", "run"])
def test_an_activation_function_is_known_traced_and_run(function, name, example):
    model = wired(lambda m, x: m.b(function(m.a(x))))
    assert reads(model, example=example) == {"a": "linear", "b": name}


@pytest.mark.parametrize("example", [None, torch.ones(2, 6)], ids=["traced", "run"])
@pytest.mark.parametrize("wiring", [lambda m, x: m.c(m.gate(m.a(x))), lambda m, x: m.c(F.glu(m.a(x)))])
def test_a_gated_linear_unit_is_a_product(wiring, example):
    model = Wired(wiring, a=nn.Linear(6, 12), gate=nn.GLU(), c=square())
    assert gwt.plan(model, example).row("c").reason == "it reads a product of two signals"


@pytest.mark.parametrize("example", [None, torch.ones(2, 6)], ids=["traced", "run"])
def test_depth_is_counted_along_the_longest_path(example):
    model = wired(lambda m, x: m.c(m.b(torch.tanh(m.a(x))) + m.b(x)))
    layers = gwt.find_layers(model, example=example)
    assert {layer.name: layer.position for layer in layers.weight_layers} == {"a": 1, "b": 2, "c": 3}
    assert layers.depth == 3
    assert Note.REPEATED in layers.weight_layers[1].notes


def test_what_is_left_alone_is_not_touched_and_has_its_reason():
    tied = square()
    tied.weight = (embedding := nn.Embedding(6, 6)).weight
    parts = {
        "plain": square(),
        "embedding": embedding,
        "tied": tied,
        "recurrent": nn.LSTM(6, 6),
        "attention": nn.MultiheadAttention(6, 2),
        "normed": nn.utils.parametrizations.weight_norm(square()),
        "shifted": parametrize.register_parametrization(square(), "bias", nn.Softplus()),
        "lazy": nn.LazyLinear(6),
        "unused": square(),
    }

    def wiring(m, x):
        x = m.lazy(m.shifted(m.normed(m.tied(m.plain(x)) + m.embedding(torch.zeros(2, dtype=torch.long)))))
        return m.attention(*[m.recurrent(x)[0]] * 3)[0]

    model = Wired(wiring, **parts)
    before = {k: v.clone() for k, v in model.state_dict().items() if not k.startswith("lazy")}
    plan = gwt.init_(model)
    assert plan.drawn == ()
    why = {row.name: row.reason for row in plan.rows} | {each.name: each.why for each in plan.left_alone}
    for name, word in {
        "plain": "tied above it is outside",
        "embedding": "lookup",
        "tied": "shared",
        "recurrent": "same weights",
        "attention": "softmax",
        "normed": "parametrised",
        "shifted": "parametrised",
        "lazy": "lazy",
        "unused": "not on the path",
    }.items():
        assert word in why[name], name
        assert word in str(plan)
    for key, value in before.items():
        assert torch.equal(model.state_dict()[key], value), key


def test_a_trace_that_took_the_wrong_path_is_noticed():
    def wiring(m, x):
        a = m.a(x)
        return m.b(torch.cat([a, a], 1) if isinstance(a, torch.Tensor) else a)

    model = Wired(wiring, a=square(), b=nn.Linear(12, 2))
    with pytest.raises(ValueError, match=r"'b' reads 12 channels, and the trace has 6.*pass example="):
        gwt.find_layers(model)
    assert reads(model, example=torch.ones(2, 6)) == {"a": "linear", "b": "linear"}


def test_running_the_example_changes_nothing_in_the_model():
    def wiring(m, x):
        return m.b(torch.relu(m.norm(m.drop(m.a(x))) + torch.rand(6)))

    model = Wired(wiring, a=square(), b=square(), norm=nn.BatchNorm1d(6), drop=nn.Dropout(0.5))
    model.drop.eval()
    state, seed = {k: v.clone() for k, v in model.state_dict().items()}, torch.get_rng_state()
    gwt.find_layers(model, example=torch.randn(5, 6, generator=torch.Generator().manual_seed(0)))
    assert all(torch.equal(v, state[k]) for k, v in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), seed)
    assert model.training
    assert not model.drop.training
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())


def branching(m, x):
    return m.b(torch.tanh(m.a(x))) if x.sum() > 0 else m.b(m.a(x))


def test_a_model_that_cannot_be_traced_asks_for_an_example():
    model = wired(branching)
    with pytest.raises(ValueError, match=r"^init_: .* not known what 'a' reads; pass example="):
        gwt.init_(model)
    assert reads(model, example=torch.ones(2, 6)) == {"a": "linear", "b": "tanh"}


@pytest.mark.parametrize(
    "wiring",
    [
        lambda m, x: m.c(m.a(x) * torch.sigmoid(m.b(x))),
        lambda m, x: m.c(torch.relu(m.a(x)) + m.b(x)),
        lambda m, x: m.c(torch.tanh(torch.relu(m.b(m.a(x))))),
        lambda m, x: m.c(torch.cumsum(m.b(m.a(x)), 0)),
        lambda m, x: m.c(F.hardtanh(m.b(m.a(x)), -2.0, 2.0)),
    ],
    ids=["product", "mixed sum", "two in a row", "unknown function", "unknown parameter"],
)
@pytest.mark.parametrize("example", [None, torch.ones(2, 6)], ids=["traced", "run"])
def test_a_layer_whose_input_is_not_known_is_left_alone_and_takes_the_activation_given(wiring, example):
    row = gwt.plan(wired(wiring), example).row("c")
    assert row.reason.startswith("it reads ")
    with pytest.raises(ValueError, match=r"^init_: what 'c' reads is not known \(it reads .*pass activation="):
        gwt.init_(wired(wiring), example=example, only="c")
    for given in ("relu", {"c": "relu"}, {"a": "tanh", "[cd]": "relu"}):
        layers = gwt.find_layers(wired(wiring), given, example)
        assert [layer.activation.name for layer in layers.weight_layers] == ["linear", "linear", "relu"]
        assert Note.GIVEN in layers.weight_layers[-1].notes


# The stand-in, and torch.fx where it cannot go.


def doubled(x):
    return torch.add(x, x)


EASY = {
    "loop": lambda m, x: functools.reduce(lambda x, layer: torch.relu(layer(x)), (m.a, m.b, m.c), x),
    "methods": lambda m, x: m.b(m.a(x).tanh().view(x.size(0), -1).to(torch.float32)),
    "keywords": lambda m, x: m.b(input=F.leaky_relu(m.a(x), negative_slope=0.3)),
    "residual": lambda m, x: m.c(F.relu(m.a(x) + m.b(F.relu(m.a(x))))),
    "twice the same": lambda m, x: m.b(torch.tanh(doubled(m.a(x)))),
    "constants": lambda m, x: m.c(sum([m.a(x), 1.0, m.b(x)])),
    "list": lambda m, x: m.c(torch.stack([m.a(x), torch.tanh(m.b(x))]).mean(0)),
    "attention": lambda m, x: m.c(F.scaled_dot_product_attention(m.a(x), m.b(x), x)),
    "unknown": lambda m, x: m.c(torch.cumsum(m.a(x), 0)),
}
HARD = {
    "branch": lambda m, x: m.b(m.a(x)) if x.sum() else m.b(torch.tanh(m.a(x))),
    "comparison": lambda m, x: m.b(m.a(x)) if x.dim() == 2 else m.b(torch.tanh(m.a(x))),
    "attribute": lambda m, x: m.b(m.a(x)) if x.is_cuda else m.b(torch.tanh(m.a(x))),
    "no attribute": lambda m, x: m.b(m.a(x)) if hasattr(x, "tensors") else m.b(torch.tanh(m.a(x))),
    "parameter": lambda m, x: m.b(F.linear(torch.tanh(m.a(x)), m.c.weight)),
    "forward": lambda m, x: m.b(m.c.forward(torch.tanh(m.a(x)))),
    "tensor": lambda m, x: m.b(m.a(x) + torch.ones(6)),
    "index": lambda m, x: m.b(torch.tanh(m.a(x))[:, :6]),
    "root": lambda m, x: m.b(torch.tanh(m.a(x)) / math.sqrt(x.size(-1))),
    "mistraced": lambda m, x: m.b(m.d(m.a(x))),
}


def layers_or_error(model):
    """Return what find_layers returns for a model without an example, or its error message."""
    try:
        layers = gwt.find_layers(model)
    except ValueError as error:
        return str(error)
    seen = layers.trace.order, layers.trace.merges, layers.trace.outputs
    return [layer._replace(module=None) for layer in layers.weight_layers], layers.left_alone, seen


@pytest.mark.parametrize("name", [*EASY, *HARD])
def test_a_stand_in_shows_what_torch_fx_shows_and_stops_where_it_cannot_know(name, monkeypatch):
    model = Wired((EASY | HARD)[name], a=square(), b=square(), c=square(), d=nn.Linear(12, 6))
    trace = Trace(model)
    trace.checks_channels = True
    assert passes_through(trace) == (name in EASY)
    assert bool(trace.readings) == bool(trace.order) == bool(trace.outputs) == (name in EASY)
    quick = layers_or_error(model)
    monkeypatch.setattr("gradwalk.torch.follow.passes_through", lambda trace: False)
    assert quick == layers_or_error(model)


def test_a_stand_in_is_given_for_every_argument():
    class Two(Wired):
        def forward(self, x, y=None):
            return self.b(torch.tanh(self.a(x)) if y is None else torch.relu(self.a(x)))

    class Named(Wired):
        def forward(self, x, *, y=None):
            return self.b(self.a(x))

    two, named = Two(None, a=square(), b=square()), Named(None, a=square(), b=square())
    assert passes_through(Trace(two))
    assert reads(two) == {"a": "linear", "b": "relu"}
    assert not passes_through(Trace(named))


@pytest.mark.parametrize("name", ["loop", "branch"])
def test_a_stand_in_leaves_the_modules_as_they_were_and_runs_no_hook_of_a_layer(name):
    model = wired((EASY | HARD)[name])
    model.a.register_forward_hook(lambda *_: pytest.fail("the hook ran"))
    model.b._compiled_call_impl = lambda *_: pytest.fail("what compile() made ran")
    before = [dict(vars(module)) for module in model.modules()]
    passes_through(Trace(model))
    after = [dict(vars(module)) for module in model.modules()]
    assert all(old.keys() == new.keys() for old, new in zip(before, after, strict=True))
    assert all(old[key] is new[key] for old, new in zip(before, after, strict=True) for key in old)


def test_an_example_that_does_not_fit_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match=r"^init_: the model does not run on the example[^\n]*$"):
        gwt.init_(wired(branching), example=torch.ones(2, 7))


# The report.


def test_the_report_prints_every_layer_within_100_columns():
    model = nn.ModuleDict({"a_name_of_a_module_that_is_much_too_long_for_the_table_of_a_report": square()})
    inner = Wired(lambda m, x: m.d["a_name_of_a_module_that_is_much_too_long_for_the_table_of_a_report"](x), d=model)
    report = gwt.init_(
        nn.Sequential(nn.Linear(6, 6), gwt.Steady(nn.GELU(), 12.5), inner, nn.LayerNorm(6)), keep_fine=False
    )
    lines = str(report).splitlines()
    assert max(map(len, lines)) <= 100
    first = report.rows[0]
    numbers = [f"{first.std:.4g}", f"{first.proposed:.4g}", f"{first.gain:.4f}", "0"]
    assert lines[1].split() == ["0", "6x6", "chain", "linear", *numbers]
    assert "[1]" in lines[2]
    assert any(line.startswith("[1] left alone: a norm follows") for line in lines)
    assert lines[-1].startswith("left alone: 3 (LayerNorm)")


# Plain chains are read off; what is read off is what a trace finds.


class _Traced(nn.Sequential):
    """A Sequential that is traced, because its class is not torch's own."""


def _shared():
    first, second = square(), square()
    second.weight = first.weight
    return [first, nn.ReLU(), second]


def _frozen():
    layer = square()
    layer.weight.requires_grad_(False)
    return [layer, nn.ReLU(), square()]


CHAINS = {
    "plain": lambda: [square(), nn.ReLU(), square(), nn.LeakyReLU(0.3), square()],
    "nested": lambda: [nn.Sequential(square(), nn.ReLU()), nn.Sequential(square(), nn.Sequential(nn.GELU(), square()))],
    "identity": lambda: [square(), nn.Identity(), nn.Tanh(), nn.Identity(), square()],
    "activation first": lambda: [nn.Tanh(), square()],
    "two activations": lambda: [square(), nn.ReLU(), nn.Tanh(), square()],
    "convolutions": lambda: [nn.Conv1d(6, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(24, 3)],
    "padded": lambda: [nn.Conv1d(6, 6, 3, padding=1), nn.ReLU(), nn.Conv1d(6, 6, 1)],
    "transposed": lambda: [nn.ConvTranspose1d(4, 4, 3), nn.ReLU(), nn.Conv1d(4, 4, 1)],
    "shared": _shared,
    "called twice": lambda: [layer := square(), nn.ReLU(), layer],
    "frozen": _frozen,
    "dropout": lambda: [square(), nn.ReLU(), nn.Dropout(0.1), square()],
    "norm": lambda: [square(), nn.LayerNorm(6), nn.ReLU(), square()],
    "a slope to learn": lambda: [square(), nn.PReLU(), square()],
    "lazy": lambda: [square(), nn.ReLU(), nn.LazyLinear(3)],
    "parametrised": lambda: [square(), nn.ReLU(), nn.utils.parametrizations.weight_norm(square())],
    "meta": lambda: [nn.Linear(6, 6, device="meta"), nn.ReLU(), square()],
    "complex": lambda: [nn.Linear(6, 6, dtype=torch.complex64), nn.Tanh(), square()],
}


@pytest.mark.parametrize("modules", CHAINS.values(), ids=CHAINS.keys())
def test_the_layers_of_a_plain_chain_are_those_that_a_trace_finds(modules):
    modules = modules()
    quick, traced = gwt.find_layers(nn.Sequential(*modules)), gwt.find_layers(_Traced(*modules))
    assert (quick.weight_layers, quick.left_alone) == (traced.weight_layers, traced.left_alone)


def test_an_adapter_in_a_chain_is_seen():
    model = nn.Sequential()
    model.add_module("body", square())
    model.add_module("lora_A", square())
    assert gwt.plan(model).row("lora_A").reason.startswith("an adapter")

"""Models that are written in less usual ways: nothing of them changes, and nothing is taken for what it is not."""

import pytest
import torch
from torch import nn
from torch.nn.utils import prune
from torch.utils.checkpoint import checkpoint

import gradwalk.torch as gwt

X, Y = torch.randn(8, 16, generator=torch.Generator().manual_seed(1)), torch.ones(8, 1)


def loss(output):
    return (output - Y).square().mean()


class Model(nn.Module):
    """A model of some layers with a forward of its own."""

    def __init__(self, forward, **layers):
        super().__init__()
        torch.manual_seed(0)
        self.run = forward
        for name, build in layers.items():
            setattr(self, name, build())

    def forward(self, x):
        return self.run(self, x)


def linear(*sizes):
    return lambda: nn.Linear(*sizes)


def pruned(layer):
    return prune.l1_unstructured(layer, "weight", 3)


@pytest.mark.parametrize("wrap", [nn.utils.spectral_norm, pruned])
def test_weights_that_hooks_compute_are_left_alone_in_a_plain_chain(wrap):
    model = nn.Sequential(wrap(nn.Linear(16, 16)), nn.ReLU(), nn.Linear(16, 1))
    assert "parametrised" in gwt.plan(model).row("0").reason
    assert gwt.probe(model, X, loss).layers == ("0", "2")


def test_the_buffers_of_a_spectral_norm_stay():
    first = nn.utils.parametrizations.spectral_norm(nn.Linear(16, 16))
    model = nn.Sequential(first, nn.ReLU(), nn.Linear(16, 1)).train()
    before = {name: value.clone() for name, value in model.named_buffers()}
    assert before
    gwt.plan(model)
    gwt.plan(model, X)
    gwt.probe(model, X, loss)
    assert all(torch.equal(value, before[name]) for name, value in model.named_buffers())


@pytest.mark.parametrize("merge", [torch.maximum, torch.hypot, lambda a, b: torch.where(a > 0, a, b)])
def test_a_hidden_layer_that_an_unknown_function_reads_second_is_no_output_layer(merge):
    model = Model(lambda own, x: own.o(torch.relu(merge(x, own.a(x)))), a=linear(16, 16), o=linear(16, 1))
    row = gwt.plan(model, X).row("a")
    assert row.role is gwt.LayerRole.OUTSIDE
    assert "its output goes into" in row.reason


@pytest.mark.parametrize("factor", [1e4, 1e-4])
def test_a_faulty_layer_that_runs_often_is_called(factor):
    def forward(own, x):
        for _ in range(3):
            x = x + torch.relu(own.u(own.n(x)))
        return own.o(x)

    model = Model(forward, n=lambda: nn.LayerNorm(16), u=linear(16, 16), o=linear(16, 1))
    assert gwt.probe(model, X, loss).status == "healthy"
    with torch.no_grad():
        model.u.weight.mul_(factor)
    assert gwt.probe(model, X, loss).status == ("exploding" if factor > 1 else "vanishing")


def test_a_reentrant_checkpoint_behind_a_layer_is_refused_in_one_sentence():
    model = Model(
        lambda own, x: own.o(checkpoint(own.b, own.i(x), use_reentrant=True)),
        i=linear(16, 16),
        b=lambda: nn.Sequential(nn.Linear(16, 16), nn.ReLU()),
        o=linear(16, 1),
    )
    with pytest.raises(ValueError, match=r"probe: not measured: a reentrant checkpoint .* use_reentrant=False"):
        gwt.probe(model, X, loss)


def test_an_output_layer_without_units_is_no_empty_batch():
    model = Model(lambda own, x: (own.h(x), own.none(x)), h=linear(16, 1), none=lambda: nn.Linear(16, 1))
    model.none.weight = nn.Parameter(torch.empty(0, 16))
    model.none.bias = None
    assert gwt.probe(model, X, lambda outputs: loss(outputs[0])).layers == ("h",)
    with pytest.raises(ValueError, match="empty batch"):
        gwt.probe(model, X[:0], lambda outputs: outputs[0].sum())


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.BatchNorm1d])
def test_a_shallow_network_with_a_norm_in_front_is_left_alone_as_one_without(norm):
    hidden = [each for _ in range(4) for each in (nn.Linear(32, 32), nn.ReLU())]
    model = nn.Sequential(nn.Linear(16, 32), norm(32), nn.ReLU(), *hidden, nn.Linear(32, 1))
    assert gwt.plan(model).drawn == ()
    with torch.no_grad():
        for place in (3, 5, 7, 9):
            model[place].weight.mul_(0.3)  # 8 times off their law
    assert gwt.plan(model).drawn


def test_a_buffer_that_a_run_registers_does_not_stay():
    def forward(own, x):
        if "cache" not in own._buffers:
            own.register_buffer("cache", x.sum())
        return own.o(x)

    model = Model(forward, o=linear(16, 1))
    gwt.plan(model, X)
    gwt.probe(model, X, loss)
    assert dict(model.named_buffers()) == {}


def test_an_example_that_a_model_changes_in_place_stays():
    model = Model(lambda own, x: own.o(x.mul_(2)), o=linear(16, 1))
    example = X.clone()
    gwt.plan(model, example, loss_fn=loss)
    gwt.probe(model, example, loss)
    assert torch.equal(example, X)


def test_compare_draws_orthogonal_weights_in_half_precision():
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)).bfloat16()
    walks = gwt.compare(model, X.bfloat16(), lambda output: loss(output.float())).walks
    assert walks["orthogonal"].gains[0] == pytest.approx(1, rel=0.01)


def test_an_example_without_a_batch_is_measured():
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
    assert gwt.probe(model, X[0], lambda output: output.square().sum()).layers == ("0", "2")


def test_complex_signals_are_measured_without_a_warning():
    def forward(own, x):
        return own.o(own.n(torch.fft.ifft(torch.fft.fft(own.i(x)) + 1).real))

    gwt.plan(Model(forward, i=linear(16, 16), n=lambda: nn.LayerNorm(16), o=linear(16, 1)), X)


@pytest.mark.parametrize(
    "look",
    [
        torch.zeros_like,
        torch.std,
        torch.norm,
        lambda h: torch.isfinite(h).all(),
        lambda h: h.new_zeros(3),
        lambda h: h.detach().abs().mean().item(),
    ],
    ids=["zeros_like", "std", "norm", "isfinite", "new_zeros", "item"],
)
def test_a_model_that_only_looks_at_its_signals_is_drawn(look):
    def forward(model, x):
        for layer in model.layers:
            h = layer(x)
            look(h)
            x = torch.relu(h)
        return model.head(x)

    model = Model(forward, layers=lambda: nn.ModuleList(nn.Linear(16, 16) for _ in range(30)), head=linear(16, 1))
    plan = gwt.plan(model, example=X)
    assert len(plan.drawn) == len(plan.rows) == 31
    assert gwt.probe(model, X, loss).chain


def test_what_a_signal_is_multiplied_with_is_no_mere_look():
    def forward(model, x):
        h = model.first(x)
        return model.last(torch.relu(h) * h.std())

    model = Model(forward, first=linear(16, 16), last=linear(16, 1))
    assert gwt.plan(model, example=X, keep_fine=False).drawn == ()


def test_what_is_lost_sight_of_is_no_mere_look():
    def forward(model, x):
        h = torch.zeros(8, 16)
        h[:] = torch.cumsum(model.first(x), 1)
        return model.last(h)

    model = Model(forward, first=linear(16, 16), last=linear(16, 1))
    rows = {row.name: row.reason for row in gwt.plan(model, example=X, keep_fine=False).rows}
    assert rows["first"] == "its output goes into cumsum()"


def test_each_of_two_output_layers_is_one_in_any_order():
    def forward(model, x):
        h = torch.relu(model.trunk(x))
        return [getattr(model, name)(h) for name in model.order]

    for order in ("ab", "ba"):
        model = Model(forward, trunk=linear(16, 16), a=linear(16, 3), b=linear(16, 3))
        model.order = order
        roles = {row.name: str(row.role) for row in gwt.plan(model, example=X).rows}
        assert roles == {"trunk": "chain", "a": "head", "b": "head"}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_orthogonal_convolutions_in_half_precision_are_probed(dtype):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1)).to(dtype)
    gwt.init_(model, weights="orthogonal", keep_fine=False)
    walk = gwt.probe(model, torch.randn(8, 3, 6, 6).to(dtype), lambda output: output.float().square().mean())
    assert (walk.high > walk.low)[0]


def test_a_layer_that_init_leaves_alone_unless_named_is_named_in_the_advice():
    def forward(model, x):
        for block in model.blocks:
            x = x + block(x)
        return model.head(x)

    def blocks():
        parts = [[nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 16)] for _ in range(6)]
        return nn.ModuleList(nn.Sequential(*each) for each in parts)

    model = Model(forward, blocks=blocks, head=linear(16, 1))
    with torch.no_grad():
        model.head.weight *= 5e-4  # as timm scales those of Eva and BEiT
    assert "init_(model, only='head')" in gwt.probe(model, X, loss).verdict
    gwt.init_(model, only="head", example=X)
    assert gwt.probe(model, X, loss).status == "healthy"

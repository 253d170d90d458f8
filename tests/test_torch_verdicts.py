"""probe on models with sums, norms and odd shapes: the verdict is right, and what is not seen is not called healthy."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from helpers.torch_models import Conv1D, Wired, generator, mlp, scaled_mlp  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import gradwalk.torch as gwt  # noqa: E402

X = torch.randn(16, 24, generator=generator(1))
CALLED = ("exploding", "vanishing", "broken")


def squares(output):
    return output.square().sum()


class Residual(nn.Module):
    """Blocks x + down(relu(up(norm(x)))) between a first layer and a head."""

    def __init__(self, blocks=6, norm=nn.Identity, scale=0.3, width=24):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.head = nn.Linear(width, width), nn.Linear(width, 4)
        self.norms = nn.ModuleList([norm(width) if norm is not nn.Identity else norm() for _ in range(blocks)])
        self.ups = nn.ModuleList([nn.Linear(width, width) for _ in range(blocks)])
        self.downs = nn.ModuleList([nn.Linear(width, width) for _ in range(blocks)])
        with torch.no_grad():
            for up, down in zip(self.ups, self.downs, strict=True):
                up.weight.normal_(0, 1 / math.sqrt(width))
                down.weight.normal_(0, scale * math.sqrt(2 / width))

    def forward(self, x):
        x = self.first(x)
        for norm, up, down in zip(self.norms, self.ups, self.downs, strict=True):
            x = x + down(torch.relu(up(norm(x))))
        return self.head(x)


def multiplied(model, name, factor):
    with torch.no_grad():
        model.get_submodule(name).weight.mul_(factor)
    return model


# Along the stream.


def test_residual_nets_are_judged_along_the_stream_and_their_branches_are_measured():
    walk = gwt.probe(Residual(norm=nn.LayerNorm), X, squares)
    assert walk.status == "healthy"
    assert len(walk.stream) == 8
    assert walk.stream[0].name == "first"
    assert len(walk.blocks) == 6
    assert all(-3 < block.forward < 0.5 and -3 < block.backward < 0.5 for block in walk.blocks)
    assert np.isfinite(walk.predicted).all()
    assert "branch against stream" in str(walk)


def test_the_stream_has_the_gradient_of_plain_autograd():
    model = Residual(blocks=2)
    a = model.first(X)
    b = a + model.downs[0](torch.relu(model.ups[0](a)))
    c = b + model.downs[1](torch.relu(model.ups[1](b)))
    y = model.head(c)
    gradients = torch.autograd.grad(squares(y), [a, b, c, y])
    logs = torch.stack([g.norm(dim=1).log() for g in gradients])
    expected = (logs - logs[-1]).mean(dim=1).tolist()
    assert [point.log_norm for point in gwt.probe(model, X, squares).stream] == pytest.approx(expected, abs=1e-4)


def test_a_residual_net_at_full_scale_explodes():
    walk = gwt.probe(Residual(blocks=40, scale=1.0), X, squares)
    assert walk.status == "exploding"
    assert "along the stream" in walk.verdict


@pytest.mark.parametrize("norm", [nn.Identity, nn.LayerNorm])
@pytest.mark.parametrize("factor", [1e4, 1e-4])
@pytest.mark.parametrize("name", ["first", "ups.3", "downs.0", "head"])
def test_one_layer_of_another_scale_is_called_out(norm, factor, name):
    assert gwt.probe(Residual(norm=norm), X, squares).status == "healthy"
    walk = gwt.probe(multiplied(Residual(norm=norm), name, factor), X, squares)
    assert walk.status in CALLED
    with pytest.raises(AssertionError, match=walk.status):
        walk.assert_healthy()


@pytest.mark.parametrize("factor", [1e4, 1e-4])
def test_a_layer_that_a_norm_rescales_is_called_out_by_name(factor):
    model = nn.Sequential(*(each for _ in range(6) for each in (nn.Linear(24, 24), nn.LayerNorm(24), nn.ReLU())))
    assert gwt.probe(model, X, squares).status == "healthy"
    walk = gwt.probe(multiplied(model, "6", factor), X, squares)
    assert walk.status == ("exploding" if factor > 1 else "vanishing")
    assert " at 6: " in walk.verdict


def test_a_branch_that_starts_at_zero_is_no_fault():
    model = Residual(norm=nn.LayerNorm)
    for down in model.downs:
        nn.init.zeros_(down.weight)
    assert gwt.probe(model, X, squares).status == "healthy"


def test_a_head_that_starts_at_zero_leaves_the_walk_unmeasured():
    model = Residual(norm=nn.LayerNorm)
    nn.init.zeros_(model.head.weight)
    walk = gwt.probe(model, X, lambda y: (y - 1).square().sum())
    assert walk.status == "not measured"
    assert "head starts at zero" in walk.verdict


def test_a_small_auxiliary_loss_does_not_make_the_gradient_explode():
    model = Wired(
        lambda m, x: (m.main(h := torch.relu(m.b(torch.relu(m.a(x))))), m.side(h)),
        a=nn.Linear(24, 24),
        b=nn.Linear(24, 24),
        main=nn.Linear(24, 4),
        side=nn.Linear(24, 4),
    )
    walk = gwt.probe(model, X, lambda y: squares(y[0]) + 1e-6 * squares(y[1]))
    assert walk.status == "healthy"
    assert walk.stream[-1].name == "b"
    assert abs(walk.log_norm[1]) < 1e-9


def test_init_is_not_advised_straight_after_itself():
    model = Residual(blocks=40, scale=1.0)
    assert "init_" in gwt.probe(model, X, squares).verdict
    gwt.init_(model, example=X)
    assert "init_" not in gwt.probe(model, X, squares).verdict
    assert "init_" not in gwt.probe(model, X, lambda y: squares(y) * math.inf).verdict


# What is not seen.


def test_a_recurrent_net_is_not_measured_and_its_weights_are_looked_at():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.cells, self.head = nn.LSTM(8, 24, num_layers=2, batch_first=True), nn.Linear(24, 4)

        def forward(self, x):
            return self.head(self.cells(x)[0])

    x = torch.randn(16, 3, 8, generator=generator(2))
    walk = gwt.probe(Recurrent(), x, squares)
    assert walk.status == "not measured"
    assert walk.share < 0.1
    with pytest.raises(AssertionError, match=r"not measured: .* LSTM"):
        walk.assert_healthy()
    model = Recurrent()
    with torch.no_grad():
        model.cells.weight_hh_l1.mul_(1e4)
    assert gwt.probe(model, x, squares).status in CALLED


def test_reentrant_checkpoints_hide_what_is_inside():
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inside, self.head = mlp([24] * 5, nn.Tanh), nn.Linear(24, 4)

        def forward(self, x):
            return self.head(checkpoint(self.inside, x, use_reentrant=True))

    walk = gwt.probe(Checkpointed(), X.clone().requires_grad_(), squares)
    assert walk.layers == ("head",)
    assert walk.status == "not measured"


def test_a_model_of_layers_of_its_own_is_not_measured():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = nn.ParameterList([torch.randn(24, 24, generator=generator(n)) / 5 for n in range(5)])

        def forward(self, x):
            for weight in self.weights:
                x = torch.tanh(x @ weight)
            return x

    model = Own()
    walk = gwt.probe(model, X, squares)
    assert (walk.status, walk.layers) == ("not measured", ())
    assert len(walk.parameters) == 5
    with torch.no_grad():
        model.weights[2].mul_(1e4)
    assert gwt.probe(model, X, squares).status == "exploding"


def test_a_broken_layer_of_transformers_is_seen():
    layers = [Conv1D.like(layer) if isinstance(layer, nn.Linear) else layer for layer in mlp([24] * 7, nn.Tanh)]
    model = nn.Sequential(*layers)
    assert gwt.probe(model, X, squares).status == "healthy"
    assert gwt.probe(multiplied(model, "4", 1e4), X, squares).status in CALLED


class Own(nn.Module):
    """A layer of a class that gradwalk does not know."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(inputs, outputs, generator=generator(inputs)) / math.sqrt(inputs))
        self.offset = nn.Parameter(torch.ones(outputs))

    def forward(self, x):
        return x @ self.kernel + self.offset


@pytest.mark.parametrize("factor", [1e4, 1e-4])
@pytest.mark.parametrize("name", ["0", "2", "4"])
def test_one_weight_of_another_scale_in_a_class_of_its_own_is_called_out(factor, name):
    model = nn.Sequential(Own(24, 24), nn.Tanh(), Own(24, 16), nn.Tanh(), Own(16, 4))
    assert gwt.probe(model, X, squares).status == "not measured"
    with torch.no_grad():
        model.get_submodule(name).kernel.mul_(factor)
    walk = gwt.probe(model, X, squares)
    assert walk.status == ("exploding" if factor > 1 else "vanishing")
    assert f" at {name}.kernel: " in walk.verdict


class Gating(nn.Module):
    """x + (1 + gate(x)) up(x): the gate is open at the start."""

    def __init__(self):
        super().__init__()
        self.up, self.gate = nn.Linear(24, 24), nn.Linear(24, 24)

    def forward(self, x):
        return x + (1 + self.gate(x)) * self.up(x)


def test_gates_that_all_start_near_zero_are_no_fault_and_a_single_one_is():
    torch.manual_seed(0)
    model = nn.Sequential(*[each for _ in range(4) for each in (nn.LayerNorm(24), Gating())], nn.Linear(24, 4))
    for n in (1, 3, 5, 7):
        multiplied(model, f"{n}.gate", 1e-5)
    assert gwt.probe(model, X, squares).status == "healthy"
    for n in (1, 3, 5):
        multiplied(model, f"{n}.gate", 1e5)
    walk = gwt.probe(model, X, squares)
    assert walk.status == "vanishing"
    assert " at 7.gate: " in walk.verdict


# Odd inputs and shapes.


class Windows(nn.Module):
    """Folds four windows of each example into the first dimension."""

    def __init__(self, fold=4):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.inner, self.head, self.fold = nn.Linear(24, 24), nn.Linear(6, 6), nn.Linear(24, 2), fold

    def forward(self, x):
        a = torch.tanh(self.first(x))
        b = torch.tanh(self.inner(a.reshape(-1, 6)))
        return self.head(b.reshape(-1, 24))


def test_folded_examples_are_put_together_again():
    model = Windows()
    walk = gwt.probe(model, X, squares)
    assert walk.examples == 16
    a = model.first(X)
    b = model.inner(torch.tanh(a).reshape(-1, 6))
    y = model.head(torch.tanh(b).reshape(-1, 24))
    inner, last = torch.autograd.grad(squares(y), [b, y])
    expected = (inner.reshape(16, -1).norm(dim=1).log() - last.norm(dim=1).log()).mean()
    assert walk.log_norm[1] == pytest.approx(float(expected), abs=1e-5)


def test_a_first_dimension_of_another_kind_makes_the_batch_one_example():
    model = Wired(lambda m, x: m.b(torch.tanh(m.a(x)).T), a=nn.Linear(24, 5), b=nn.Linear(16, 3))
    assert gwt.probe(model, X, squares).examples == 1


def test_inputs_may_be_keywords():
    class Keywords(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.net = mlp([24, 24, 24, 4], nn.Tanh)

        def forward(self, *, features, scale=1.0):
            return self.net(features * scale)

    model = Keywords()
    walk = gwt.probe(model, {"features": X}, squares)
    assert np.array_equal(walk.log_norm, gwt.probe(model.net, X, squares).log_norm)
    assert gwt.calibrate_(model, {"features": X}, squares).after.status == "healthy"


def test_a_layer_may_be_called_with_a_keyword():
    model = Wired(lambda m, x: m.b(torch.tanh(m.a(input=x))), a=nn.Linear(24, 24), b=nn.Linear(24, 4))
    assert gwt.probe(model, X, squares).layers == ("a", "b")


def test_data_parallel_is_looked_into():
    model = mlp([24, 24, 4], nn.Tanh)
    assert gwt.probe(nn.DataParallel(model), X, squares).layers == ("0", "2")


def test_complex_weights_are_measured_and_not_predicted():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(24, 24, dtype=torch.complex64), nn.Linear(24, 4, dtype=torch.complex64))
    x = torch.complex(X, X.flip(0))
    walk = gwt.probe(model, x, lambda y: y.abs().square().sum())
    a = model[0](x)
    y = model[1](a)
    first, last = torch.autograd.grad(y.abs().square().sum(), [a, y])
    assert walk.log_norm[0] == pytest.approx(float((first.norm(dim=1).log() - last.norm(dim=1).log()).mean()), abs=1e-4)
    assert np.isnan(walk.predicted[0])
    assert "complex weights" in str(walk)


def test_an_empty_batch_is_refused_in_one_sentence():
    model = mlp([24, 24, 4], nn.Tanh)
    for name, call in {"probe": gwt.probe, "calibrate_": gwt.calibrate_}.items():
        with pytest.raises(ValueError, match=f"^{name}: inputs must have at least one example"):
            call(model, X[:0], squares)


def test_a_layer_that_is_shared_is_measured_twice_and_not_predicted():
    model = Wired(
        lambda m, x: m.head(torch.tanh(m.a(x)) + torch.tanh(m.a(x.flip(1)))), a=nn.Linear(24, 24), head=nn.Linear(24, 4)
    )
    walk = gwt.probe(model, X, squares)
    assert walk.layers == ("a", "a#2", "head")
    assert walk.status == "healthy"


# calibrate_ and Monitor.


def test_shared_weights_are_refused_by_calibrate():
    model = scaled_mlp([24] * 5, nn.Tanh, 2.0)
    model[6].weight = model[0].weight
    with pytest.raises(ValueError, match=r"^calibrate_: 0 and 6 share their weight"):
        gwt.calibrate_(model, X, squares)


def test_frozen_weights_are_not_scaled():
    model = scaled_mlp([24] * 6, nn.Tanh, 2.0)
    model[4].weight.requires_grad_(False)
    before = model[4].weight.clone()
    result = gwt.calibrate_(model, X, squares)
    assert torch.equal(model[4].weight, before)
    assert abs(result.after.log_norm[0]) < 0.03


def test_monitor_records_models_that_fold_the_batch():
    model = Windows()
    with gwt.Monitor(model) as monitor:
        squares(model(X)).backward()
        record = monitor.step()
    assert record is not None
    assert record.log_norm == pytest.approx(gwt.probe(model, X, squares).log_norm, abs=1e-5)

"""Output layers that are enlarged as far as the loss on an example allows."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gradwalk.torch as gwt

X = torch.randn(64, 20, generator=torch.Generator().manual_seed(1))
CLASSES = torch.randint(10, (64,), generator=torch.Generator().manual_seed(2))


def classifier(outputs=10):
    """Return a model whose output layer, behind a norm, has torch's default weights: 2.5 times too small by its law."""
    torch.manual_seed(0)
    body = [nn.Linear(20, 64), nn.LayerNorm(64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 64), nn.BatchNorm1d(64)]
    return nn.Sequential(*body, nn.ReLU(), nn.Linear(64, outputs))


def cross_entropy(output):
    return F.cross_entropy(output, CLASSES)


def absolute(size):
    """Return the mean absolute error, relative to targets of that size."""
    targets = size * torch.randn(64, 1, generator=torch.Generator().manual_seed(3))
    return lambda output: (output - targets).abs().mean() / size


def state(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def changed(before, model):
    return [name for name, tensor in model.state_dict().items() if not torch.equal(before[name], tensor)]


def test_an_output_layer_whose_targets_are_classes_gets_the_scale_of_its_law():
    model = classifier()
    before, own = state(model), model[7].weight.detach().clone()
    plan = gwt.init_(model, example=X, loss_fn=cross_entropy)
    row = plan.row("7")
    assert changed(before, model) == ["7.weight"]
    assert row.rescaled
    assert row.gain == pytest.approx(gwt.plan(classifier(), keep_fine=False).row("7").gain, rel=1e-14)  # by way of std
    assert 2 < row.proposed / row.std < 3
    torch.testing.assert_close(model[7].weight, own * (row.proposed / row.std))
    assert "up to its law" in str(plan)
    assert plan.drawn == (row,)


def test_without_a_loss_it_is_left_alone():
    assert gwt.plan(classifier(), example=X).drawn == ()


@pytest.mark.parametrize(("size", "reached"), [(100.0, True), (0.03, False)])
def test_the_size_of_the_targets_decides(size, reached):
    row = gwt.plan(classifier(1), example=X, loss_fn=absolute(size)).row("7")
    assert (row.reason == "") is reached
    assert reached or "speaks against" in row.reason


@pytest.mark.parametrize("loss", [lambda output: (output - 3).square().mean(), lambda output: output.exp().mean()])
def test_a_loss_that_grows_as_a_square_or_faster_leaves_it_alone(loss):
    assert "speaks against" in gwt.plan(classifier(1), example=X, loss_fn=loss).row("7").reason


def test_between_both_it_is_enlarged_until_the_loss_exceeds_that_of_a_constant_by_a_quarter():
    model, loss = classifier(1).eval(), absolute(0.5)
    constant = classifier(1).eval()
    nn.init.zeros_(constant[7].weight)
    row = gwt.init_(model, example=X, loss_fn=loss).row("7")
    law = gwt.plan(classifier(1), keep_fine=False).row("7").proposed
    assert 1.5 * row.std < row.proposed < 0.95 * law
    assert "as far as the loss" in row.notes[-1]
    assert row.drift == pytest.approx(math.log(row.proposed / law))
    with torch.no_grad():
        limit = 1.25 * loss(constant(X))
        assert loss(model(X)) <= limit
        model[7].weight *= (law / row.std) ** (1 / 16)
        assert loss(model(X)) > limit


def test_a_second_call_changes_nothing():
    for outputs, loss in ((10, cross_entropy), (1, absolute(0.5))):
        model = classifier(outputs)
        gwt.init_(model, example=X, loss_fn=loss)
        before = state(model)
        gwt.init_(model, example=X, loss_fn=loss)
        assert changed(before, model) == []


def test_the_plan_of_a_model_in_training_mode_leaves_it_as_it_is():
    model = classifier().train()
    before, random = state(model), torch.get_rng_state()
    first = gwt.plan(model, example=X, loss_fn=cross_entropy)
    assert changed(before, model) == []
    assert torch.equal(random, torch.get_rng_state())
    assert model[5].training
    assert model[7].weight.grad is None
    assert gwt.plan(model, example=X, loss_fn=cross_entropy) == first  # dropout draws the same numbers


def test_zero_frozen_and_skipped_output_layers_stay():
    for prepare in (lambda layer: nn.init.zeros_(layer.weight), lambda layer: layer.weight.requires_grad_(False)):
        model = classifier()
        prepare(model[7])
        assert gwt.plan(model, example=X, loss_fn=cross_entropy).drawn == ()
    assert gwt.plan(classifier(), example=X, loss_fn=cross_entropy, skip="7").drawn == ()


def test_several_heads_are_enlarged_together_and_biases_stay():
    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.one, self.two = classifier()[:7], nn.Linear(64, 10), nn.Linear(64, 10)
            nn.init.constant_(self.one.bias, -2.0)

        def forward(self, x):
            h = self.body(x)
            return self.one(h), self.two(h)

    model = Heads()
    before = state(model)
    plan = gwt.init_(model, example=X, loss_fn=lambda outputs: sum(map(cross_entropy, outputs)))
    assert changed(before, model) == ["one.weight", "two.weight"]
    assert len(plan.drawn) == 2


def test_a_deep_chain_is_drawn_as_without_a_loss():
    torch.manual_seed(0)
    chain = nn.Sequential(*[each for _ in range(40) for each in (nn.Linear(20, 20), nn.ReLU())], nn.Linear(20, 10))
    plan = gwt.plan(chain, example=X, loss_fn=cross_entropy)
    assert plan == gwt.plan(chain)
    assert not any(row.rescaled for row in plan.rows)


def test_a_head_that_the_loss_does_not_depend_on_stays():
    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.used, self.unused = classifier()[:7], nn.Linear(64, 10), nn.Linear(64, 10)

        def forward(self, x):
            h = self.body(x)
            return self.used(h), self.unused(h)

    plan = gwt.plan(Heads(), example=X, loss_fn=lambda outputs: cross_entropy(outputs[0]))
    assert [row.name for row in plan.drawn] == ["used"]


def test_a_layer_with_two_names_keeps_its_parameter():
    class TwoNames(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = classifier()[:7], nn.Linear(64, 10)
            self.all = nn.ModuleList([self.body, self.head])

        def forward(self, x):
            return self.head(self.body(x))

    model = TwoNames()
    weight = model.head.weight
    assert gwt.init_(model, example=X, loss_fn=cross_entropy).drawn
    assert model.head.weight is weight
    assert isinstance(weight, nn.Parameter)


def test_a_loss_that_is_not_finite_changes_nothing():
    assert gwt.plan(classifier(), example=X, loss_fn=lambda output: output.sum() * math.nan).drawn == ()


@pytest.mark.parametrize("function", [gwt.plan, gwt.init_])
def test_what_cannot_be_used_is_refused_in_one_sentence(function):
    with pytest.raises(ValueError, match=f"{function.__name__}: loss_fn needs example="):
        function(classifier(), loss_fn=cross_entropy)
    with pytest.raises(TypeError, match=f"{function.__name__}: loss_fn must be a function"):
        function(classifier(), example=X, loss_fn="cross_entropy")
    with pytest.raises(ValueError, match=rf"{function.__name__}: loss_fn\(output\) must return a tensor"):
        function(classifier(), example=X, loss_fn=lambda output: output)
    with pytest.raises(ValueError, match=f"{function.__name__}: loss_fn fails on an output without gradient"):
        function(classifier(), example=X, loss_fn=lambda output: torch.autograd.grad(output.sum(), output)[0].sum())
    with pytest.raises(ValueError, match=f"{function.__name__}: the model does not run on the example"):
        function(classifier(), example=torch.randn(3, 7), loss_fn=cross_entropy)

"""What probe shows of directions: those of the batch at each layer, and a verdict where the norm alone is healthy."""

import math

import pytest
import torch
from torch import nn

import gradwalk.torch as gwt
from gradwalk.torch.passage import weights_like
from gradwalk.torch.passing import directions_of


def chain(activation, depth=60, width=16, weights="gaussian"):
    torch.manual_seed(0)
    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), activation())]
    model = nn.Sequential(*layers, nn.Linear(width, 10))
    gwt.init_(model, weights=weights, keep_fine=False, generator=torch.Generator().manual_seed(1))
    return model


def probed(model, examples=64):
    torch.manual_seed(2)
    labels = torch.randint(0, 10, (examples,))
    return gwt.probe(model, torch.randn(examples, 16), lambda output: nn.functional.cross_entropy(output, labels))


def test_rows_span_the_directions_of_their_covariance():
    torch.manual_seed(0)
    scales = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0])
    assert directions_of(torch.randn(64, 5) * scales) == pytest.approx(3, rel=0.1)
    assert directions_of(torch.ones(20, 4) * torch.arange(1.0, 21.0)[:, None]) == pytest.approx(1)
    assert math.isnan(directions_of(torch.ones(5, 4)))


def test_the_verdict_names_a_healthy_norm_of_which_few_directions_pass():
    walk = probed(chain(nn.ReLU))
    assert walk.status == "healthy"
    assert walk.directions.min() < 2 < walk.directions[-1]
    assert walk.signal_directions[-1] < 1.2
    assert "The norm is healthy, but only 1." in walk.verdict
    assert "directions of 16" in walk.verdict
    assert "gradwalk.advise('relu', width=16, depth=61) ranks what helps" in walk.verdict


def test_it_does_not_where_a_leak_and_orthogonal_weights_let_enough_pass():
    leak = 0.8  # about gw.leak_for("relu", 16, 61, directions=4.0)
    walk = probed(chain(lambda: gwt.Leak(nn.ReLU(), leak), weights="orthogonal"))
    assert walk.directions.min() > 2.5
    assert "directions of" not in walk.verdict


def test_a_shallow_network_is_not_judged_by_directions():
    assert "directions of" not in probed(chain(nn.ReLU, depth=10)).verdict


def test_the_table_and_the_columns_have_the_directions():
    walk = probed(chain(nn.Tanh, depth=3))
    assert walk.columns()["directions"] == walk.directions.tolist()
    assert str(walk).splitlines()[0].endswith("dirs")
    few = probed(chain(nn.Tanh, depth=3), examples=4)
    assert all(math.isnan(value) for value in few.directions)


def jacobian_directions(model, x):
    """Return the participation ratio of the squared singular values from the first layer's output to the model's."""
    below = model[0](x).detach()
    jacobian = torch.autograd.functional.jacobian(model[1:], below).double()
    squares = torch.linalg.svdvals(jacobian) ** 2
    return float(squares.sum() ** 2 / (squares**2).sum())


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_plan_init_and_probe_predict_the_directions_of_the_jacobian(weights):
    ratios = []
    generator = torch.Generator().manual_seed(3)
    for _ in range(24):
        model = chain(nn.Tanh, depth=20)
        plan = gwt.init_(model, weights=weights, keep_fine=False, generator=generator)
        ratios.append(jacobian_directions(model, torch.randn(16, generator=generator)))
    ratios = torch.tensor(ratios)
    error = float(ratios.std()) / len(ratios) ** 0.5
    assert plan.directions == pytest.approx(float(ratios.mean()), abs=4 * error)
    assert f"{plan.directions:.1f} directions of 10 are predicted to pass backward" in str(plan)
    walk = probed(model)
    assert walk.passage.weights == weights
    assert walk.predicted_directions == pytest.approx(plan.directions, rel=0.1)
    assert gwt.plan(model).drawn == ()  # the weights serve, and are recognised for what they are
    assert gwt.plan(model).directions == pytest.approx(plan.directions, rel=0.1)


def test_the_prediction_stands_beside_what_was_measured():
    walk = probed(chain(nn.ReLU))
    assert f" directions of 16 pass ({walk.predicted_directions:.1f} predicted), at " in walk.verdict
    assert "gradwalk.advise ranks what helps" in str(gwt.plan(chain(nn.ReLU)))


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)),
        nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.ReLU()) for _ in range(6)]),
        nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.1)) for _ in range(12)]),
        nn.Sequential(*[nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU()) for _ in range(12)]),
    ],
    ids=["shallow", "two activations", "dropout", "convolutions"],
)
def test_nothing_is_predicted_of_other_models(model):
    plan = gwt.plan(model)
    assert math.isnan(plan.directions)
    assert "directions" not in str(plan)


def test_a_scalar_output_is_left_out_of_the_passage():
    layers = [layer for _ in range(12) for layer in (nn.Linear(8, 8), nn.Tanh())]
    plan = gwt.plan(nn.Sequential(*layers, nn.Linear(8, 1)))
    assert plan.passage.widths == (8,) * 12
    assert 1 < plan.directions < 8


@pytest.mark.parametrize("shape", [(2, 50), (33, 33), (64, 512), (1000, 100), (100, 3000), (700, 700)])
@pytest.mark.parametrize("kind", ["gaussian", "orthogonal"])
def test_weights_of_any_shape_are_told_apart(shape, kind):
    layer, draw = nn.Linear(*shape, bias=False), torch.Generator().manual_seed(1)
    fill = nn.init.normal_ if kind == "gaussian" else nn.init.orthogonal_
    fill(layer.weight, generator=draw)
    assert weights_like(layer) == kind


@pytest.mark.parametrize(("inputs", "gradients"), [(1e-30, 1e-14), (1e-30, 1e-15), (1.0, 1e-20), (1e20, 1e14)])
def test_the_scales_of_inputs_and_gradients_change_neither_the_prediction_nor_the_directions(inputs, gradients):
    model = chain(nn.ReLU, depth=6)
    for layer in model[::2]:
        nn.init.zeros_(layer.bias)
    draw = torch.Generator().manual_seed(5)
    x, weights = torch.randn(20, 16, generator=draw), torch.randn(20, 10, generator=draw)
    walk = gwt.probe(model, x, lambda y: (y * weights).sum())
    scaled = gwt.probe(model, x * inputs, lambda y: (y * (weights * gradients)).sum())
    assert scaled.lost == -1
    assert scaled.predicted == pytest.approx(walk.predicted, abs=1e-6)
    assert scaled.directions == pytest.approx(walk.directions, rel=1e-5)

"""What probe shows of directions: those of the batch at each layer, and a verdict where the norm alone is healthy."""

import math

import pytest
import torch
from torch import nn

import gradwalk.torch as gwt
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

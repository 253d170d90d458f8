"""Gains of layers of a few units, for which no gain of a whole network serves."""

from itertools import pairwise

import pytest

from gradwalk import activation
from gradwalk.gains import layer_gain, solve_gain


def gain_of_layer(name: str, width: int, depth: int) -> float:
    return layer_gain(activation(name), width, depth, "gaussian").value


def test_where_a_walk_has_a_gain_a_layer_has_the_same():
    assert gain_of_layer("tanh", 8, 16) == solve_gain("tanh", 8, 16).value
    assert gain_of_layer("relu", 2, 64) == solve_gain("relu", 2, 64).value
    assert gain_of_layer("gelu", 100, 200) == solve_gain("gelu", 100, 200).value  # the plan reports its spread


@pytest.mark.parametrize(
    ("name", "width", "depth", "served"), [("tanh", 2, 8, 1), ("tanh", 3, 8, 2), ("selu", 1, 3, 1)]
)
def test_without_a_gain_over_the_whole_depth_it_is_that_of_fewer_layers(name, width, depth, served):
    with pytest.raises(ValueError, match="no gain between"):
        solve_gain(name, width, depth)
    assert gain_of_layer(name, width, depth) == solve_gain(name, width, served).value


def test_a_mean_that_a_few_networks_decide_is_no_guide():
    assert solve_gain("elu", 8, 64).spread > 10
    assert gain_of_layer("elu", 8, 64) == solve_gain("elu", 8, 32).value


torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import gradwalk.torch as gwt  # noqa: E402


def chain(act: type[nn.Module], widths: list[int]) -> nn.Sequential:
    torch.manual_seed(0)
    layers = [each for n, out in pairwise(widths) for each in (nn.Linear(n, out), act())]
    return nn.Sequential(*layers[:-1])


@pytest.mark.parametrize("act", [nn.Tanh, nn.ELU, nn.SELU])
@pytest.mark.parametrize("code", [1, 2, 3])
def test_an_autoencoder_with_a_code_of_a_few_units_is_planned_and_initialised(act, code):
    model = chain(act, [64, 32, 16, code, 16, 32, 64])
    x = torch.randn(20, 64)
    assert len(gwt.plan(model).rows) == 6
    gwt.init_(model, keep_fine=False)
    assert gwt.probe(model, x, lambda y: (y - x).square().mean()).log_norm[0] > -10


@pytest.mark.parametrize("act", [nn.Tanh, nn.ELU, nn.SELU])
def test_a_deep_chain_of_a_few_units_is_not_worse_off_than_before(act):
    model, x = chain(act, [32] + [8] * 64 + [32]), torch.randn(20, 32)
    before = gwt.probe(model, x, lambda y: y.square().mean()).log_norm[0]
    gwt.init_(model)
    assert abs(gwt.probe(model, x, lambda y: y.square().mean()).log_norm[0]) < 0.5 * abs(before)

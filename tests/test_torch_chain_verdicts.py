"""probe on chains: the verdict is right, and names what is wrong."""

import math

import pytest

import gradwalk

torch = pytest.importorskip("torch")
from helpers.torch_chains import batch, chain, plain_log_norms  # noqa: E402
from helpers.torch_models import generator  # noqa: E402
from torch import nn  # noqa: E402

from gradwalk.torch.probe import probe  # noqa: E402


def named_net(scheme, act, seed=0):
    torch_net = chain(act, 1.0, depth=200, width=100, dtype=torch.float64)
    for layer in torch_net:
        if isinstance(layer, nn.Linear):
            scheme(layer.weight, generator(seed := seed + 1))
    return torch_net


def default_weights(w, draw):
    nn.init.kaiming_uniform_(w, a=math.sqrt(5), generator=draw)


def kaiming(w, draw):
    nn.init.kaiming_normal_(w, nonlinearity="relu", generator=draw)


def xavier(w, draw):
    nn.init.xavier_normal_(w, gain=5 / 3, generator=draw)


@pytest.mark.parametrize(
    ("scheme", "act", "status"),
    [
        (default_weights, nn.ReLU, "vanishing"),
        (default_weights, nn.Tanh, "vanishing"),
        (kaiming, nn.ReLU, "vanishing"),
        (xavier, nn.Tanh, "exploding"),
    ],
)
def test_the_usual_schemes_at_200_layers_are_called_by_name_with_the_right_factor(scheme, act, status):
    model, (x, loss_fn) = named_net(scheme, act), batch(4, width=100, dtype=torch.float64)
    walk = probe(model, x, loss_fn)
    factor = math.exp(plain_log_norms(model, x, loss_fn).mean())
    assert walk.status == status
    assert walk.factor == pytest.approx(factor, rel=1e-6)
    assert f"by a factor of {max(factor, 1 / factor):.2g}" in walk.verdict
    assert "init_" in walk.verdict
    with pytest.raises(AssertionError, match=status):
        walk.assert_healthy()


@pytest.mark.parametrize("seed", range(3))
def test_kaiming_is_called_vanishing_whatever_the_luck_of_the_net(seed):
    model, (x, loss_fn) = named_net(kaiming, nn.ReLU, seed=1000 * seed), batch(2, width=100, dtype=torch.float64)
    walk = probe(model, x, loss_fn)
    assert walk.bias == pytest.approx(-2.64, abs=0.2)
    assert walk.status == "vanishing" or walk.log_norm[0] > walk.bounds[1]


def test_random_walk_weights_are_called_healthy():
    gain = gradwalk.gain("relu", 100)
    walk = probe(chain(nn.ReLU, gain, 60, 100), *batch(8, 100))
    assert walk.status == "healthy"
    assert walk.from_layer is None
    walk.assert_healthy()
    with pytest.raises(AssertionError):
        walk.assert_healthy(limit=1.0001)


def test_a_deep_gelu_net_is_called_unsteady_with_its_largest_serviceable_depth():
    walk = probe(chain(nn.GELU, 1.588, 60, 50), *batch(4, 50))
    assert "gelu is unsteady" in walk.verdict
    assert f"largest serviceable depth at this width (spread 2) is {gradwalk.max_depth('gelu', 50):.0f}" in walk.verdict
    assert "Steady" in walk.verdict
    assert "unsteady" not in probe(chain(nn.GELU, 1.55, 8, 100), *batch(4, 100)).verdict


def test_the_layer_from_which_on_it_is_off_is_named():
    model, (x, loss_fn) = chain(nn.Tanh, 1.15, depth=40), batch(4)
    with torch.no_grad():
        model[38].weight.mul_(1e-4)
    walk = probe(model, x, loss_fn)
    assert (walk.status, walk.from_layer) == ("vanishing", "36")


def test_an_output_layer_that_alone_is_off_is_sent_to_calibrate():
    model, (x, loss_fn) = chain(nn.Tanh, 1.2, depth=10), batch(4)
    with torch.no_grad():
        model[-1].weight.mul_(1e-4)
    assert "Only the output layer is off: gradwalk.torch.calibrate_" in probe(model, x, loss_fn).verdict


def test_what_is_not_finite_is_broken():
    model, (x, loss_fn) = chain(nn.ReLU, 1.4), batch(4)
    walk = probe(model, x * math.nan, loss_fn)
    assert walk.status == "broken"
    assert "the output of 0 is not finite" in walk.verdict
    assert "the loss is not finite" in probe(model, x, lambda y: y.sum() * math.inf).verdict
    with pytest.raises(AssertionError, match="broken"):
        walk.assert_healthy(limit=1e9)

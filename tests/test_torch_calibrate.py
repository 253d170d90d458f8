"""calibrate_: three factors make the measured walk flat, and a failure restores the weights."""

import copy
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from helpers.torch_models import scaled_mlp  # noqa: E402
from torch import nn  # noqa: E402

from gradwalk.torch.calibrate import calibrate_  # noqa: E402
from gradwalk.torch.probe import probe  # noqa: E402


def chain(act, gain, widths):
    return scaled_mlp(widths, act, gain)


def pixels(count=64, width=60, seed=1):
    """Return inputs similar to images (most pixels 0, the others skewed, neighbours alike), and a loss on labels."""
    draw = torch.Generator().manual_seed(seed)
    smooth = nn.functional.avg_pool1d(torch.randn(count, 1, width + 4, generator=draw), 5, 1)[:, 0]
    x = 255 * smooth.clamp(min=0) ** 2
    labels = torch.randint(0, 10, (count,), generator=draw)
    return x, lambda output: nn.functional.cross_entropy(output, labels)


WIDTHS = [60, *[80] * 24, 10]


@pytest.mark.parametrize("act", [nn.Tanh, nn.ReLU, nn.ELU])
@pytest.mark.parametrize("gain", [0.3, 3.0])
def test_a_mis_scaled_net_is_made_flat(act, gain):
    model, (x, loss_fn) = chain(act, gain, WIDTHS), pixels()
    if act is nn.ReLU and gain == 3.0:
        x = x / 100  # else its outputs are so large that the softmax leaves most examples no gradient
    result = calibrate_(model, x, loss_fn)
    walk = probe(model, x, loss_fn)
    assert abs(walk.log_norm[0] - walk.log_norm[-2]) <= 0.01
    assert abs(walk.log_norm[-2]) <= 0.01
    assert abs(walk.forward[0]) <= 0.01
    assert abs(result.before.log_norm[0]) > 1
    assert np.array_equal(result.after.log_norm, walk.log_norm)
    assert result.after.status == "healthy"


def test_the_factors_are_those_on_the_weights_and_biases_stay():
    model, (x, loss_fn) = chain(nn.Tanh, 2.0, WIDTHS), pixels()
    with torch.no_grad():
        model[0].bias.fill_(0.1)
    old = copy.deepcopy(model)
    result = calibrate_(model, x, loss_fn)
    layers = [place for place, layer in enumerate(model) if isinstance(layer, nn.Linear)]
    factors = [result.gain_in, *[result.gain] * (len(layers) - 2), result.gain_out]
    for place, factor in zip(layers, factors, strict=True):
        assert torch.allclose(model[place].weight, old[place].weight * factor, rtol=1e-5)
        assert torch.equal(model[place].bias, old[place].bias)
    for name in ("gain_in =", "gain =", "gain_out =", "before", "after"):
        assert name in str(result)


def test_a_net_that_is_flat_stays_so():
    model, (x, loss_fn) = chain(nn.Tanh, 1.3, WIDTHS), pixels()
    calibrate_(model, x, loss_fn)
    again = calibrate_(model, x, loss_fn)
    assert [again.gain_in, again.gain, again.gain_out] == pytest.approx([1, 1, 1], abs=0.01)


def test_two_layers_have_nothing_between():
    model, (x, loss_fn) = chain(nn.Tanh, 3.0, [60, 30, 10]), pixels()
    result = calibrate_(model, x, loss_fn)
    assert result.gain == 1.0
    assert abs(result.after.log_norm[0]) <= 0.02


def test_it_leaves_gradients_and_random_state_alone():
    model, (x, loss_fn) = chain(nn.Tanh, 3.0, [60, 30, 30, 10]), pixels()
    state = torch.get_rng_state()
    calibrate_(model, x, loss_fn)
    assert torch.equal(state, torch.get_rng_state())
    assert all(p.grad is None for p in model.parameters())


X, LOSS = pixels()


@pytest.mark.parametrize(
    ("x", "loss_fn", "message"),
    [
        (torch.ones(8, 60), LOSS, "inputs must not be constant"),
        (X * math.nan, LOSS, "inputs must be finite"),
        (X, lambda y: y.detach().sum(), "the loss has no gradient"),
        (X, lambda y: (0 * y).sum(), "the gradient of the loss is zero"),
        (X, lambda y: y.sum() * math.nan, "the loss is not finite"),
    ],
)
def test_what_cannot_be_tuned_on_is_refused_and_the_weights_stay(x, loss_fn, message):
    model = chain(nn.Tanh, 3.0, WIDTHS)
    old = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=f"^calibrate_: {message}"):
        calibrate_(model, x, loss_fn)
    assert all(torch.equal(old[key], value) for key, value in model.state_dict().items())


def test_a_model_without_weight_layers_or_with_one_is_refused():
    with pytest.raises(ValueError, match="calibrate_: the model ran no weight layer"):
        calibrate_(nn.Sequential(nn.Tanh()), X, lambda y: y.sum())
    with pytest.raises(ValueError, match="at least two weight layers, got 1"):
        calibrate_(nn.Linear(60, 10), X, LOSS)


def test_weights_are_put_back_when_the_goal_cannot_be_met():
    model = chain(nn.Tanh, 1.0, [60, 30, 30, 10])
    with torch.no_grad():
        model[0].bias.fill_(50.0)  # no weights bring the rms of layer 1 down to 1
    old = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match="no factor on the weights brings the rms of layer 1"):
        calibrate_(model, X, LOSS)
    assert all(torch.equal(old[key], value) for key, value in model.state_dict().items())

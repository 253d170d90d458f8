"""The weights of other initialisers are what torch draws, and runs name them."""

import itertools
import math
import re

import numpy as np
import pytest
import torch
from torch import nn

from gradwalk import activations, data
from gradwalk.nets.initial import PEERS, SCHEMES
from gradwalk.nets.peers import known_gain, peer_layers
from gradwalk.train import Run, checked_run, train

WIDTHS = (90, 60, 120, 10)  # rectangular, narrowing and widening
EXAMPLES = 200


@pytest.fixture(scope="module")
def digits() -> data.Dataset:
    return data.load("digits", examples=EXAMPLES)


def drawn(scheme: str, activation: str = "tanh", seed: int = 0, widths: tuple[int, ...] = WIDTHS, x=None):
    names = (*[activation] * (len(widths) - 2), "linear")
    x = torch.randn(200, widths[0], generator=torch.Generator().manual_seed(9)) if x is None else x
    return list(peer_layers(scheme, widths, names, seed, x))


# The peers' weights


def as_torch_draws(scheme: str, activation: str, seed: int) -> list[torch.Tensor]:
    """The weights (out, in) that torch's own initialiser gives, called for each layer in turn."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for fan_in, fan_out in itertools.pairwise(WIDTHS):
        weight = torch.empty(fan_out, fan_in)
        if scheme == "xavier":
            nn.init.xavier_normal_(weight, nn.init.calculate_gain(activation), generator)
        elif scheme == "kaiming":
            nn.init.kaiming_normal_(weight, mode="fan_in", nonlinearity=activation, generator=generator)
        else:
            nn.init.orthogonal_(weight, nn.init.calculate_gain(activation), generator)
        found.append(weight)
    return found


@pytest.mark.parametrize("activation", ["tanh", "relu", "selu"])
@pytest.mark.parametrize("scheme", ["xavier", "kaiming", "plain-orthogonal"])
def test_a_peer_draws_what_torch_draws(scheme: str, activation: str) -> None:
    for (weight, bias), expected in zip(drawn(scheme, activation), as_torch_draws(scheme, activation, 0), strict=True):
        torch.testing.assert_close(weight.T, expected)
        assert not bias.any()


def test_the_default_of_torch_is_that_of_linear_biases_included() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        linears = [nn.Linear(fan_in, fan_out) for fan_in, fan_out in itertools.pairwise(WIDTHS)]
    for (weight, bias), linear in zip(drawn("torch", seed=3), linears, strict=True):
        assert torch.equal(weight.T, linear.weight)
        assert torch.equal(bias, linear.bias)


@pytest.mark.parametrize(
    ("scheme", "variance"), [("xavier", 2 / (400 + 300)), ("kaiming", 2 / 400), ("torch", 1 / (3 * 400))]
)
def test_the_variance_is_the_formulas_with_the_default_gain_for_gelu(scheme: str, variance: float) -> None:
    (weight, _), _ = drawn(scheme, "gelu", widths=(400, 300, 10))
    spread = 3 * math.sqrt(2 / weight.numel())  # three standard errors of a normal's variance, more than a uniform's
    assert weight.var().item() == pytest.approx(variance, rel=spread)
    assert abs(weight.mean().item()) < 3 * math.sqrt(variance / weight.numel())


def test_an_activation_torch_has_no_gain_for_has_the_initialisers_own_default() -> None:
    assert known_gain("tanh", 9.0) == nn.init.calculate_gain("tanh")
    assert known_gain("leaky_relu(0.2)", 9.0) == nn.init.calculate_gain("leaky_relu", 0.2)
    assert known_gain("gelu*100", 9.0) == known_gain("elu(2)", 9.0) == 9.0


@pytest.mark.parametrize("activation", ["tanh", "relu", "gelu"])
def test_lsuv_gives_every_layer_unit_variance_on_its_examples(activation: str) -> None:
    h = x = torch.rand(100, 90, generator=torch.Generator().manual_seed(1)) * 7
    f = activations.activation(activation).f
    for weight, bias in drawn("lsuv", activation, x=x):
        a = h @ weight
        assert a.var(correction=0).item() == pytest.approx(1.0, rel=1e-4)
        assert not bias.any()
        rows = weight if weight.shape[0] <= weight.shape[1] else weight.T
        product = rows @ rows.T
        torch.testing.assert_close(product / product[0, 0], torch.eye(len(rows)), atol=1e-4, rtol=0)
        h = torch.from_numpy(np.asarray(f(a.numpy())))


@pytest.mark.parametrize("scheme", PEERS)
def test_weights_come_from_the_seed_alone(scheme: str) -> None:
    before = torch.get_rng_state()
    first, again, other = (drawn(scheme, seed=seed) for seed in (5, 5, 6))
    assert torch.equal(torch.get_rng_state(), before)
    for one, same, else_ in zip(first, again, other, strict=True):
        assert torch.equal(one[0], same[0])
        assert not torch.allclose(one[0], else_[0])
    assert abs(np.corrcoef(first[0][0].flatten()[:600], first[1][0].flatten()[:600])[0, 1]) < 0.15


# Runs


def test_every_setting_that_changes_the_result_changes_the_identity(digits: data.Dataset) -> None:
    common = {"data": "digits", "examples": EXAMPLES}
    changes = [{}, {"width": 8}, {"width": 9}, {"weight_decay": 1e-4}, *({"weights": name} for name in PEERS)]
    assert len({Run(**common, **change).identity(digits) for change in changes}) == len(changes)


def test_a_width_is_that_of_all_hidden_layers(digits: data.Dataset) -> None:
    run = Run(data="digits", depth=4, width=20)
    assert run.architecture(digits).widths == (64, 20, 20, 20, 10)
    assert run.params is None
    assert Run(**run.model_dump()) == run
    assert Run(data="digits", depth=4, width=20).stacks_with() != Run(data="digits", depth=4, width=21).stacks_with()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"width": 8, "params": 1e4}, "train: width takes the place of params, and only one of them can be given"),
        ({"params": None}, "train: params must be a number where no width is given, got params=None"),
        ({"width": 8, "task": "reconstruct"}, "train: width is for task='classify'"),
        ({"width": 0}, "train: width must be greater than or equal to 1, got width=0"),
        ({"weights": "he"}, 'train: weights must be "gaussian" or "orthogonal" or "torch"'),
        ({"weights": "lsuv", "gain": 1.0}, "train: gain is not for weights='lsuv', which have a scale of their own"),
        ({"weights": "torch", "gain_in": 2.0}, "train: gain_in is not for weights='torch'"),
        ({"weights": "kaiming", "gain_out": 1.0}, "train: gain_out is not for weights='kaiming'"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_in_one_sentence(settings: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
        checked_run("train", **settings)
    assert "\n" not in str(caught.value)


def test_the_weights_of_a_peer_have_no_gain() -> None:
    with pytest.raises(ValueError, match="weights='xavier' have a scale of their own and no gain"):
        Run(weights="xavier").gains((64, 8, 10))


@pytest.mark.filterwarnings("error")
def test_every_initialiser_trains_alike_alone_and_in_a_stack(digits: data.Dataset) -> None:
    common = {"data": "digits", "examples": EXAMPLES, "depth": 5, "width": 16, "epochs": 2, "batch": 50}
    asked = [Run(**common, weights=weights, rate_in=0.1, rate_out=0.1) for weights in SCHEMES]
    together = train(asked, digits, threads=2)
    for run, outcome in zip(asked, together, strict=True):
        (alone,) = train([run], digits, threads=1)
        assert alone.last.train_loss == outcome.last.train_loss
        assert all(map(torch.equal, alone.state.weights, outcome.state.weights))
    assert len({outcome.last.train_loss for outcome in together}) == len(SCHEMES)


def test_a_scaled_activation_has_a_name_that_a_run_can_use(digits: data.Dataset) -> None:
    assert activations.activation("gelu*100") is activations.activation("GELU").scaled(100.0)
    run = Run(data="digits", activation="GELU*100", depth=3, width=8)
    assert run.architecture(digits).activations == ("gelu*100", "gelu*100", "linear")
    for wrong in ("gelu*", "gelu*ten", "gelu*-1", "glu*2"):
        with pytest.raises(ValueError, match=r"activation:|scaled:"):
            activations.activation(wrong)

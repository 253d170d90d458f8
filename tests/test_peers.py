"""Initialisers: those of others draw what torch draws, runs name them, and users register their own."""

import itertools
import math
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import nn

from gradwalk import activations, data
from gradwalk.nets import INITIALISERS, Blueprint, Gains, Initialiser, initial_layers
from gradwalk.nets.peers import known_gain
from gradwalk.sweep import Spec, Store, run_sweep
from gradwalk.train import Run, checked_run, train
from gradwalk.train.members import first_layers

WIDTHS = (90, 60, 120, 10)  # rectangular, narrowing and widening
EXAMPLES = 200
PEERS = [record.name for record in INITIALISERS if not record.takes_gain]


@pytest.fixture(scope="module")
def digits() -> data.Dataset:
    return data.load("digits", examples=EXAMPLES)


def drawn(weights: str, activation: str = "tanh", seed: int = 0, widths: tuple[int, ...] = WIDTHS, x=None):
    names = (*[activation] * (len(widths) - 2), "linear")
    x = torch.randn(200, widths[0], generator=torch.Generator().manual_seed(9)) if x is None else x
    return list(initial_layers(weights, widths, names, seed, inputs=x))


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


# Users' own


def constant(network: Blueprint) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Give the first layer the signs of the inputs' mean, to see that they arrive, and the others a constant."""
    for place, (fan_in, fan_out) in enumerate(network.shapes):
        rows = network.inputs.mean(0).sign()[:, None] if place == 0 else torch.ones(fan_in, 1)
        yield 0.1 * rows.expand(fan_in, fan_out), torch.zeros(fan_out)


def halved(network: Blueprint) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for weight, bias in INITIALISERS["gaussian"].draw(network):
        yield weight / 2, bias


@pytest.fixture
def registered() -> Iterator[Callable[[Initialiser], Initialiser]]:
    """Register initialisers for one test."""
    yield INITIALISERS.register
    for name in INITIALISERS.registered:
        INITIALISERS.remove(name)


def test_a_registered_initialiser_trains_in_a_run_and_in_a_sweep(digits: data.Dataset, registered, tmp_path) -> None:
    record = registered(Initialiser("constant", constant))
    assert (record.title, record.takes_gain) == ("constant", False)
    settings = {"data": "digits", "examples": EXAMPLES, "depth": 3, "width": 4, "epochs": 1, "weights": "constant"}
    (first, _), *_ = first_layers(Run(**settings), digits)
    assert torch.equal(first[:, 0].sign(), torch.tensor(digits.train.inputs(np.arange(100))).mean(0).sign())
    (outcome,) = train([Run(**settings)], digits)
    run_sweep(Spec.parse(settings), tmp_path, threads=1)
    with Store(tmp_path) as store:
        (result,) = store.results()
    assert result.last.train_loss == outcome.last.train_loss


def test_a_registered_initialiser_may_take_the_gain_of_a_walk(digits: data.Dataset, registered) -> None:
    registered(Initialiser("halved", halved, walk="gaussian"))
    settings = {"data": "digits", "depth": 3, "width": 4, "activation": "relu"}
    run, plain = (Run(**settings, weights=name) for name in ("halved", "gaussian"))
    for (half, _), (whole, _) in zip(first_layers(run, digits), first_layers(plain, digits), strict=True):
        assert torch.equal(2 * half, whole)


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
        ({"width": 8, "params": 1e4}, "train: only one of width and params can be given"),
        ({"params": None}, "train: params must be a number if no width is given, got params=None"),
        ({"width": 8, "task": "reconstruct"}, "train: width must be None for task='reconstruct'"),
        ({"width": 0}, "train: width must be greater than or equal to 1, got width=0"),
        ({"weights": "kaming"}, "train: there is no initialiser 'kaming'; did you mean 'kaiming'?"),
        (
            {"weights": "lsuv", "gain": 1.0},
            "train: gain cannot be set for weights='lsuv', which have a scale of their own",
        ),
        ({"weights": "torch", "gain_in": 2.0}, "train: gain_in cannot be set for weights='torch'"),
        ({"weights": "kaiming", "gain_out": 1.0}, "train: gain_out cannot be set for weights='kaiming'"),
    ],
)
def test_settings_that_do_not_go_together_are_refused_in_one_sentence(settings: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
        checked_run("train", **settings)
    assert "\n" not in str(caught.value)


def test_the_weights_of_a_peer_have_no_gain() -> None:
    assert Run(weights="xavier").gains((64, 8, 10)) is None
    with pytest.raises(ValueError, match="'xavier' has a scale of its own and takes no gains, got gains="):
        initial_layers("xavier", WIDTHS, ("tanh", "tanh", "linear"), 0, gains=Gains(1.0, 1.0, 1.0))
    with pytest.raises(ValueError, match="'gaussian' needs gains, got gains=None"):
        initial_layers("gaussian", WIDTHS, ("tanh", "tanh", "linear"), 0)


@pytest.mark.filterwarnings("error")
def test_every_initialiser_trains_alike_alone_and_in_a_stack(digits: data.Dataset) -> None:
    common = {"data": "digits", "examples": EXAMPLES, "depth": 5, "width": 16, "epochs": 2, "batch": 50}
    asked = [Run(**common, weights=weights, rate_in=0.1, rate_out=0.1) for weights in INITIALISERS.names]
    together = train(asked, digits, threads=2)
    for run, outcome in zip(asked, together, strict=True):
        (alone,) = train([run], digits, threads=1)
        assert alone.last.train_loss == outcome.last.train_loss
        assert all(map(torch.equal, alone.state.weights, outcome.state.weights))
    assert len({outcome.last.train_loss for outcome in together}) == len(asked)


def test_a_scaled_activation_has_a_name_that_a_run_can_use(digits: data.Dataset) -> None:
    assert activations.activation("gelu*100") is activations.activation("GELU").scaled(100.0)
    run = Run(data="digits", activation="GELU*100", depth=3, width=8)
    assert run.architecture(digits).activations == ("gelu*100", "gelu*100", "linear")
    for wrong in ("gelu*", "gelu*ten", "gelu*-1", "glu*2"):
        with pytest.raises(ValueError, match=r"activation:|scaled:"):
            activations.activation(wrong)

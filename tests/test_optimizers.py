"""Optimizers: they agree with torch.optim, keep their state over interruptions, and are found by their names."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from helpers.interrupt import InterruptAt
from torch import nn

from gradwalk import data, nets
from gradwalk.nets import OPTIMIZERS, Optimizer, parse_optimizer
from gradwalk.sweep import Spec, Store, run_sweep
from gradwalk.train import Outcome, Run, checked_run, loop, train
from gradwalk.train.checkpoint import load_state
from gradwalk.train.members import first_layers

EXAMPLES, BATCH, EPOCHS = 250, 50, 10  # 50 steps
COMMON = {"data": "digits", "examples": EXAMPLES, "batch": BATCH, "depth": 5, "width": 13, "gain": 1.3}
BUILT_IN = ("sgd", "momentum(0.8)", "nesterov", "adam(beta2=0.99)", "adamw")
RATES = {"sgd": 0.2, "momentum(0.8)": 0.05, "nesterov": 0.05, "adam(beta2=0.99)": 0.003, "adamw": 0.003}


@pytest.fixture(scope="module")
def digits() -> data.Dataset:
    return data.load("digits", examples=EXAMPLES)


@pytest.fixture(autouse=True)
def _threads_for_the_smallest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use all threads, also for networks as small as these."""
    monkeypatch.setattr(loop, "THREAD_FLOPS", 1.0)


def run(optimizer: str, **changes) -> Run:
    """Return a run with a learning rate per layer and another one for the biases."""
    rate = RATES[optimizer]
    settings = COMMON | {"optimizer": optimizer, "rate_in": rate / 3, "rate_out": rate, "bias_rate": 0.5}
    return Run(**(settings | {"epochs": EPOCHS, "clip": None} | changes))


# torch.optim


def by_torch(run: Run, digits: data.Dataset, precision: torch.dtype) -> list[torch.Tensor]:
    """Return the parameters that autograd and torch.optim arrive at, with one parameter group per tensor."""
    layers = zip(*first_layers(run, digits), strict=True)
    model = nets.sequential(*layers, run.architecture(digits).activations).to(precision)
    linears = [module for module in model if isinstance(module, nn.Linear)]
    groups = [{"params": [linear.weight], "lr": rate} for linear, rate in zip(linears, run.rates(), strict=True)]
    groups += [{"params": [each.bias], "lr": 0.5 * rate} for each, rate in zip(linears, run.rates(), strict=True)]
    optimizer, x = torch_optimizer(run, groups), torch.tensor(digits.train.inputs(np.arange(EXAMPLES)), dtype=precision)
    for epoch in range(run.epochs):
        order = np.random.default_rng([run.data_seed, epoch]).permutation(EXAMPLES)
        for rows in torch.tensor(order).split(run.batch):
            optimizer.zero_grad()
            nn.CrossEntropyLoss()(model(x[rows]), torch.tensor(digits.train.labels)[rows]).backward()
            if run.clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), run.clip)
            optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] *= run.decay
    return [each.detach().double() for linear in linears for each in (linear.weight.T, linear.bias)]


def torch_optimizer(run: Run, groups: list[dict]) -> torch.optim.Optimizer:
    decay = {"weight_decay": run.weight_decay}
    return {
        "sgd": lambda: torch.optim.SGD(groups, **decay),
        "momentum(0.8)": lambda: torch.optim.SGD(groups, momentum=0.8, **decay),
        "nesterov": lambda: torch.optim.SGD(groups, momentum=0.9, nesterov=True, **decay),
        "adam(beta2=0.99)": lambda: torch.optim.Adam(groups, betas=(0.9, 0.99), **decay),
        "adamw": lambda: torch.optim.AdamW(groups, **decay),
    }[run.optimizer]()


def error(parameters: list[torch.Tensor], exact: list[torch.Tensor], start: list[torch.Tensor]) -> float:
    """Return the distance from the exact parameters over the way from the start to them."""
    wrong = sum((a - b).square().sum() for a, b in zip(parameters, exact, strict=True))
    way = sum((a - b).square().sum() for a, b in zip(start, exact, strict=True))
    return float((wrong / way).sqrt())


@pytest.mark.parametrize("clip", [None, 0.5], ids=["unclipped", "clipped"])
@pytest.mark.parametrize("weight_decay", [0.0, 0.03], ids=["", "decay"])
@pytest.mark.parametrize("optimizer", BUILT_IN)
def test_fifty_steps_agree_with_torch_to_rounding(digits, optimizer, weight_decay, clip) -> None:
    asked = run(optimizer, weight_decay=weight_decay, clip=clip)
    (outcome,) = train([asked], digits, threads=1)
    ours = [each.double() for layer in zip(outcome.state.weights, outcome.state.biases, strict=True) for each in layer]
    theirs, exact = (by_torch(asked, digits, precision) for precision in (torch.float32, torch.float64))
    start = by_torch(asked.model_copy(update={"epochs": 0}), digits, torch.float64)
    assert error(theirs, exact, start) < 5e-6
    assert error(ours, exact, start) < 4 * error(theirs, exact, start)
    assert (sum(epoch.clipped for epoch in outcome.epochs) > 0) == (clip is not None)


# The same bits


def stack_of(optimizer: str, **changes) -> list[Run]:
    """Return runs that differ in their seeds, rates and weight decay, some clipped often and some never."""
    limits = (0.3, None, 2.0)
    return [run(optimizer, seed=i, weight_decay=0.01 * i, clip=limits[i], epochs=4, **changes) for i in range(3)]


def assert_same(outcome: Outcome, expected: Outcome) -> None:
    assert [epoch.row[:-1] for epoch in outcome.epochs] == [epoch.row[:-1] for epoch in expected.epochs]  # not seconds
    for ours, theirs in zip(parameters(outcome), parameters(expected), strict=True):
        assert torch.equal(ours, theirs)


def parameters(outcome: Outcome) -> list[torch.Tensor]:
    return [*outcome.state.weights, *outcome.state.biases]


@pytest.fixture(scope="module", params=BUILT_IN)
def stacked(request: pytest.FixtureRequest, digits: data.Dataset) -> list[Outcome]:
    """How the runs of each optimizer end when one thread trains them as one stack."""
    return train(stack_of(request.param), digits, threads=1)


def test_a_run_is_bit_for_bit_the_same_alone_and_in_a_stack(digits, stacked) -> None:
    assert sum(epoch.clipped for epoch in stacked[0].epochs) > 0
    for expected in stacked:
        assert_same(train([expected.run], digits, threads=1)[0], expected)


def test_the_number_of_threads_does_not_change_a_bit(digits, stacked) -> None:
    for outcome, expected in zip(train([each.run for each in stacked], digits, threads=2), stacked, strict=True):
        assert_same(outcome, expected)


@pytest.mark.parametrize("steps", [7, 13], ids=lambda steps: f"step{steps}")
def test_a_resumed_run_is_bit_for_bit_that_of_an_uninterrupted_one(digits, stacked, tmp_path, steps) -> None:
    runs = [each.run for each in stacked]
    for place in range(3):  # one after the other, so that each is interrupted at that step
        with pytest.raises(KeyboardInterrupt):
            train(runs[place : place + 1], digits, threads=1, folder=tmp_path, watcher=InterruptAt(steps))
    states = [load_state(path, path.stem) for path in tmp_path.iterdir()]
    assert all(list(state.slots) == list(parse_optimizer(runs[0].optimizer).slots) for state in states)
    for outcome, expected in zip(train(runs, digits, threads=2, folder=tmp_path), stacked, strict=True):
        assert_same(outcome, expected)


def test_a_network_that_leaves_the_stack_takes_its_state_with_it_and_no_other(digits, stacked) -> None:
    wild = stacked[1].run.model_copy(update={"rate_in": 1e38, "rate_out": 1e38})
    first, diverged, last = train([stacked[0].run, wild, stacked[2].run], digits, threads=1)
    assert diverged.diverged == 1
    assert_same(first, stacked[0])
    assert_same(last, stacked[2])


def test_runs_of_different_optimizers_do_not_stack(digits) -> None:
    with pytest.raises(
        ValueError, match="runs of one stack must share architecture, data, batch, data_seed, optimizer"
    ):
        train([run("adam(beta2=0.99)"), run("sgd")], digits)


def test_the_state_of_another_optimizer_is_refused(digits) -> None:
    widths, names = (4, 3, 2), ("tanh", "linear")
    layers = nets.initial_layers("xavier", widths, names, seed=0)
    stack = nets.Stack((([weight], [bias]) for weight, bias in layers), widths, names, nets.CrossEntropy())
    updater = nets.Updater(stack, parse_optimizer("adam"), [0.0], [1.0])
    with pytest.raises(ValueError, match=r"the state of adam must hold mean, square, got velocity"):
        updater.load(0, {"velocity": []})


def test_an_optimizer_sees_each_matrix_of_weights_by_itself() -> None:
    @dataclass(frozen=True)
    class UnitSteps(nets.Optimizer):
        name = "unit steps"

        def update(self, parameter, step):
            norms = parameter.gradient.flatten(1).norm(dim=1).view(-1, *[1] * (parameter.value.ndim - 1))
            parameter.value.sub_(parameter.gradient / norms * parameter.rate)

    widths, names, networks = (7, *[5] * 9, 3), ["tanh"] * 9 + ["linear"], 2
    both = zip(*(nets.initial_layers("xavier", widths, names, seed) for seed in range(networks)), strict=True)
    stack = nets.Stack((zip(*layer, strict=True) for layer in both), widths, names, nets.CrossEntropy())
    before = [weight.clone() for weight in stack.weights]
    stack.gradient(torch.randn(20, 7), torch.arange(20) % 3)
    rates = torch.tensor([[0.1, 0.2]]).repeat(len(names), 1)
    nets.Updater(stack, UnitSteps(), [0.0] * networks, [1.0] * networks).update(rates, 1)
    for weight, old in zip(stack.weights, before, strict=True):
        assert torch.allclose((weight - old).norm(dim=(1, 2)), rates[0])


@pytest.mark.parametrize("optimizer", BUILT_IN)
def test_the_predicted_memory_counts_state_and_scratch(optimizer: str) -> None:
    widths, names, networks = (20, 30, 9, 4), ("tanh", "tanh", "linear"), 3
    method = parse_optimizer(optimizer)
    layers = (
        [[weight] * networks, [bias] * networks] for weight, bias in nets.initial_layers("xavier", widths, names, 0)
    )
    stack = nets.Stack(layers, widths, names, nets.CrossEntropy())
    updater = nets.Updater(stack, method, [0.0] * networks, [1.0] * networks)
    state = sum(tensor.nbytes for k in range(networks) for slot in updater.slots(k).values() for tensor in slot)
    scratch = 0 if optimizer == "sgd" else 4 * networks * 20 * 30  # of the largest layer
    more = nets.stack_bytes(widths, names, networks, 10, optimizer) - nets.stack_bytes(widths, names, networks, 10)
    assert more == state + scratch
    assert state == len(method.slots) * 4 * networks * nets.parameter_count(widths)


# Names


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("sgd", "sgd"),
        (" momentum ( 0.95 )", "momentum(0.95)"),
        ("momentum(momentum=0.9)", "momentum"),
        ("nesterov()", "nesterov"),
        ("adam(0.9,0.99)", "adam(beta2=0.99)"),
        ("adamw(epsilon=1e-6, beta1=0)", "adamw(beta1=0.0, epsilon=1e-06)"),
    ],
)
def test_a_run_holds_the_canonical_text(text: str, canonical: str) -> None:
    assert Run(optimizer=text).optimizer == str(parse_optimizer(canonical)) == canonical
    assert parse_optimizer(text) == parse_optimizer(canonical)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("adm", "train: there is no optimizer 'adm'; did you mean 'adam'?"),
        (
            "adam(beta3=0.9)",
            "train: adam has the parameters beta1, beta2, epsilon, each given once, got adam(beta3=0.9)",
        ),
        ("adam(0.9, beta1=0.8)", "train: adam has the parameters beta1, beta2, epsilon, each given once"),
        ("momentum(0.9, 0.8)", "train: momentum has the parameters momentum, each given once"),
        ("sgd(0.9)", "train: sgd has no parameters, got sgd(0.9)"),
        ("adam(beta1=ten)", "train: beta1 of adam must be a number, got beta1='ten'"),
        ("adam(beta1=1)", "train: adam: beta1 must be at least 0 and below 1, got beta1=1.0"),
        ("adam(epsilon=0)", "train: adam: epsilon must be positive and finite, got epsilon=0.0"),
        ("momentum(nan)", "train: momentum: momentum must be at least 0 and below 1, got momentum=nan"),
        ("adam(", "train: write a name or name(parameters) such as \"adam(beta2=0.99)\", got optimizer='adam('"),
    ],
)
def test_an_invalid_optimizer_is_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        checked_run("train", optimizer=text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("weight_decay", [-0.1, float("nan"), float("inf")])
def test_an_invalid_weight_decay_is_refused(weight_decay: float) -> None:
    with pytest.raises(ValueError, match="train: weight_decay must be"):
        checked_run("train", weight_decay=weight_decay)


# A user's own


@dataclass(frozen=True)
class Lion(Optimizer):
    """Lion (Chen et al. 2023) as a user would write it, without a thought for memory."""

    name = "lion"
    slots = ("mean",)
    decoupled = True
    beta1: float = 0.9
    beta2: float = 0.99

    def update(self, parameter, step):
        (mean,) = parameter.slots
        direction = (self.beta1 * mean + (1 - self.beta1) * parameter.gradient).sign()
        parameter.value.sub_(parameter.rate * direction)
        mean.mul_(self.beta2).add_((1 - self.beta2) * parameter.gradient)


@pytest.fixture
def lion() -> Iterator[None]:
    """Register the optimizer for one test."""
    yield OPTIMIZERS.register(Lion)
    OPTIMIZERS.remove("lion")


@pytest.mark.usefixtures("lion")
def test_a_registered_optimizer_trains_in_a_run_and_in_a_sweep(digits, tmp_path) -> None:
    settings = COMMON | {"optimizer": "lion(beta2=0.95)", "rate_in": 1e-3, "rate_out": 1e-3, "weight_decay": 0.1}
    (outcome,) = train([Run(**settings, epochs=10)], digits)
    assert outcome.last.train_mistakes < 0.5 * EXAMPLES
    run_sweep(Spec.parse(settings | {"epochs": 10}), tmp_path, threads=1)
    with Store(tmp_path) as store:
        (result,) = store.results()
    assert result.run.optimizer == "lion(beta2=0.95)"
    assert result.last.train_loss == outcome.last.train_loss

"""Optimizers: they agree with torch.optim, keep their state over interruptions, and are found by their names."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from helpers.interrupt import InterruptAt
from torch import nn

from gradwalk import data, nets
from gradwalk.nets import OPTIMIZERS, Optimizer, parse_optimizer
from gradwalk.train import Outcome, Run, loop, train
from gradwalk.train.checkpoint import load_state

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
    widths, activations = run.architecture(digits)
    layers = list(nets.initial_layers(run.weights, widths, activations, run.seed, gains=run.gains(widths)))
    model = nets.sequential(*zip(*layers, strict=True), activations).to(precision)
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
    print(optimizer, weight_decay, clip, error(ours, exact, start), error(theirs, exact, start))
    assert error(ours, exact, start) < 1e-5
    assert (sum(epoch.clipped for epoch in outcome.epochs) > 0) == (clip is not None)

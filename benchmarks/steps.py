"""A deep tanh network and plain training steps, against which other costs are measured."""

import math

import torch
from setting import seconds
from torch import nn

from gradwalk.torch.monitor import Monitor

DEPTH, WIDTH, BATCH = 64, 100, 100


def network() -> nn.Sequential:
    """Return a tanh network with weights of gain 1.1 and zero biases."""
    draw, layers = torch.Generator().manual_seed(0), []
    for _ in range(DEPTH):
        layer = nn.Linear(WIDTH, WIDTH)
        with torch.no_grad():
            layer.weight.normal_(0, 1.1 / math.sqrt(WIDTH), generator=draw)
            layer.bias.zero_()
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def inputs() -> torch.Tensor:
    """Return a minibatch."""
    return torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(1))


def loss(output: torch.Tensor) -> torch.Tensor:
    """Return the mean square of the output."""
    return output.square().mean()


def training(model: nn.Module, x: torch.Tensor, steps: int, monitor: Monitor | None = None) -> float:
    """Return how many seconds that many steps of SGD take."""
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)

    def train() -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            loss(model(x)).backward()
            if monitor is not None:
                monitor.step()
            optimizer.step()

    return seconds(train)

"""Train a user's own `nn.Sequential` in PyTorch, plain layers with the leak that `leak_for` proposes, and without it.

python results/directions/sequential.py 1000 48 3 --out sequential-1000.csv

The arguments are depth, width and epochs. Each activation is trained with the remedy, which is the two lines of
docs/directions.md, or as it is (`--plain`): 10,000 digits of MNIST, minibatches of 100, `torch.optim.SGD` at 3e-3
(below 500 layers at 0.01, falling by a tenth per epoch), gradients clipped at 10. A row per run is appended to the
file; runs that it has are not repeated.
"""

import argparse
import csv
from pathlib import Path

import torch
from torch import nn

import gradwalk as gw
import gradwalk.torch as gwt
from gradwalk.data import Examples, load

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU, "silu": nn.SiLU, "selu": nn.SELU}
COLUMNS = ("activation", "leak", "depth", "width", "rate", "epochs", "seed", "train_mistakes", "test_mistakes")
BATCH = 100


def plain_network(activation: type[nn.Module], depth: int, width: int, seed: int) -> nn.Sequential:
    """Return a network as users write it."""
    torch.manual_seed(seed)
    hidden = [each for _ in range(depth - 2) for each in (nn.Linear(width, width), activation())]
    return nn.Sequential(nn.Linear(784, width), activation(), *hidden, nn.Linear(width, 10))


def with_remedy(net: nn.Sequential, activation: type[nn.Module], leak: float) -> nn.Sequential:
    """Return the network as `advise` proposes."""
    net = nn.Sequential(*(gwt.Leak(each, leak) if isinstance(each, activation) else each for each in net))
    gwt.init_(net, weights="orthogonal")
    return net


def tensors(examples: Examples) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs and labels."""
    return torch.from_numpy(examples.inputs(torch.arange(len(examples)).numpy())), torch.from_numpy(
        examples.labels
    ).long()


def train(net: nn.Module, x: torch.Tensor, y: torch.Tensor, rate: float, decay: float, epochs: int, seed: int) -> None:
    """Train by plain gradient descent, each epoch in an order of its own."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, decay)
    for _ in range(epochs):
        for batch in torch.randperm(len(x), generator=generator).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 10.0)
            optimizer.step()
        schedule.step()


@torch.no_grad()
def mistakes(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> int:
    """Return how many examples are classified wrongly; outputs that are not numbers count as mistakes."""
    wrong = 0
    for inputs, labels in zip(x.split(500), y.split(500), strict=True):
        output = net(inputs)
        wrong += int(((output.argmax(1) != labels) | ~output.isfinite().all(1)).sum())
    return wrong


def main() -> None:
    """Train what the file lacks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("depth", type=int)
    parser.add_argument("width", type=int)
    parser.add_argument("epochs", type=int)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--plain", action="store_true", help="as they are, with init_ alone")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    data = load("mnist", examples=10_000)
    splits = tensors(data.train), tensors(data.test)
    rate, decay = (3e-3, 0.97) if arguments.depth >= 500 else (0.01, 0.9)
    for seed in arguments.seeds:
        for name, activation in ACTIVATIONS.items():
            leak = 0.0 if arguments.plain else gw.leak_for(name, arguments.width, arguments.depth)
            row = [name, leak, arguments.depth, arguments.width, rate, arguments.epochs, seed]
            if _done(arguments.out, row):
                continue
            net = plain_network(activation, arguments.depth, arguments.width, seed)
            if arguments.plain:
                gwt.init_(net)
            else:
                net = with_remedy(net, activation, leak)
            train(net, *splits[0], rate, decay, arguments.epochs, seed)
            _append(arguments.out, [*row, *(mistakes(net, *split) for split in splits)])


def _done(path: Path, row: list[object]) -> bool:
    if not path.exists():
        return False
    with path.open(newline="", encoding="utf-8") as file:
        return [str(value) for value in row] in [line[: len(row)] for line in csv.reader(file)]


def _append(path: Path, row: list[object]) -> None:
    fresh = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if fresh:
            writer.writerow(COLUMNS)
        writer.writerow(row)
    print(dict(zip(COLUMNS, row, strict=True)), flush=True)


if __name__ == "__main__":
    main()

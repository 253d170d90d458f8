"""What init_ costs beside torch's kaiming_normal_ on the same model: both in one run, in turn, median of the repeats.

Both sides also make the biases 0. The gains are computed once before the clock starts and kept for the process; what
that first call costs is told beside it, since tanh and the like solve the exact sampler for theirs. Nothing of a model
is kept: every call finds its layers anew.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch
from setting import line, setting
from torch import nn

import gradwalk.torch as gwt


def mlp(depth: int, width: int, activation: Callable[[], nn.Module]) -> nn.Module:
    """Return a square MLP."""
    return nn.Sequential(*(each for _ in range(depth) for each in (nn.Linear(width, width), activation())))


class ConvNet(nn.Module):
    """Twenty convolutions, written as a loop, so that it has to be traced."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv2d(3 if place == 0 else channels, channels, 3, padding=1) for place in range(20)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the features."""
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


MODELS: dict[str, Callable[[], nn.Module]] = {
    "MLP 50 x 1000, relu": lambda: mlp(50, 1000, nn.ReLU),
    "MLP 50 x 1000, tanh": lambda: mlp(50, 1000, nn.Tanh),
    "MLP 200 x 100, relu": lambda: mlp(200, 100, nn.ReLU),
    "ConvNet 20 x 64, traced": lambda: ConvNet(64),
    "ConvNet 20 x 256, traced": lambda: ConvNet(256),
}


def kaiming(model: nn.Module, generator: torch.Generator) -> None:
    """Do what users do today."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
            nn.init.zeros_(module.bias)


def seconds(call: Callable[[], object]) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compare(name: str, repeats: int) -> dict[str, object]:
    """Return one row: the first call, both medians, and the median ratio of the pairs."""
    model, generator = MODELS[name](), torch.Generator().manual_seed(0)
    first = seconds(lambda: gwt.init_(model, generator=generator))
    for row in gwt.init_(model, generator=generator).rows:  # the answer, before it is timed
        weight = model.get_parameter(f"{row.name}.weight")
        assert abs(weight.std().item() / row.std - 1) < 0.05, row
    pairs = [
        (seconds(lambda: gwt.init_(model, generator=generator)), seconds(lambda: kaiming(model, generator)))
        for _ in range(repeats)
    ]
    ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(our / their for our, their in pairs)
    return {"model": name, "first": first, "init_": ours, "kaiming_normal_": theirs, "ratio": ratio}


def main() -> None:
    """Print a table, and write it with the versions as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--json", help="also write the rows there")
    options = parser.parse_args()
    print(line())
    print(f"{'':26}{'first call':>12}{'init_':>12}{'kaiming_normal_':>18}{'ratio':>8}")
    rows = []
    for name in MODELS:
        row = compare(name, options.repeats)
        rows.append(row)
        times = [f"{1e3 * float(str(row[key])):.1f} ms" for key in ("first", "init_", "kaiming_normal_")]
        print(f"{name:26}{times[0]:>12}{times[1]:>12}{times[2]:>18}{row['ratio']:8.2f}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"setting": setting(), "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()

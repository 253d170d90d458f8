"""What a Monitor costs while training: the same steps with one and without, taken in turns in one run."""

import argparse
import json
import math
import platform
import statistics
import time

import numpy as np
import torch
from torch import nn

from gradwalk.torch.monitor import Monitor
from gradwalk.torch.probe import probe


def network(depth: int, width: int) -> nn.Sequential:
    """Return a tanh net with weights of gain 1.1."""
    draw, layers = torch.Generator().manual_seed(0), []
    for _ in range(depth):
        layer = nn.Linear(width, width)
        with torch.no_grad():
            layer.weight.normal_(0, 1.1 / math.sqrt(width), generator=draw)
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def seconds(model: nn.Module, x: torch.Tensor, steps: int, monitor: Monitor | None) -> float:
    """Return what that many steps of SGD take."""
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    start = time.perf_counter()
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        if monitor is not None:
            monitor.step()
        optimizer.step()
    return time.perf_counter() - start


def main() -> None:
    """Check the record, then time it, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--depth", type=int, default=64)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    x = torch.randn(options.batch, options.width, generator=torch.Generator().manual_seed(1))

    model = network(options.depth, options.width)
    walk = probe(model, x, lambda output: output.square().mean())
    with Monitor(model, 1) as monitor:
        seconds(model, x, 1, monitor)
    assert np.allclose(monitor.records[0].log_norm, walk.log_norm, atol=1e-4), "the monitor records something else"

    seconds(model, x, 20, None)
    ratios, one = [], []
    for _ in range(options.rounds):
        with Monitor(model, options.every) as monitor:
            watched = seconds(model, x, options.every, monitor)
        assert len(monitor.records) == 1
        ratios.append(watched / seconds(model, x, options.every, None))
        with Monitor(model, 1) as monitor:
            always = seconds(model, x, 10, monitor)
        one.append(always / seconds(model, x, 10, None))
    result = {
        "depth": options.depth,
        "width": options.width,
        "batch": options.batch,
        "every": options.every,
        "ratio_median": statistics.median(ratios),
        "ratios": ratios,
        "ratio_every_step": statistics.median(one),
        "overhead_from_every_step": (statistics.median(one) - 1) / options.every,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()

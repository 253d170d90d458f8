"""Plain chains by depth: the training loss from torch's own weights and from unbiased ones, with Adam and with SGD.

    python benchmarks/chains.py --page results/chains.md

ReLU networks of width 64 without norms or skips, on the tabular task of `zoo/`: 150 steps, three seeds, the mean loss
of the last ten steps. This is why `init_` leaves chains alone whose gradient shrinks by less than ten million.
"""

import argparse
import math
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median

import torch
from torch import nn
from zoo.tasks import Table

import gradwalk
import gradwalk.torch as gwt

DEPTHS = (4, 7, 10, 13, 17, 21, 25)  # weight layers
SEEDS, STEPS, LAST, WIDTH = 3, 150, 10, 64
OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "Adam, 1e-3": lambda model: torch.optim.Adam(model.parameters(), lr=1e-3),
    "SGD, 1e-2": lambda model: torch.optim.SGD(model.parameters(), lr=1e-2),
}
TASK = Table()


def chain(depth: int, seed: int) -> nn.Sequential:
    """Return a ReLU network with torch's own weights."""
    torch.manual_seed(seed)
    widths = [TASK.draw(torch.Generator()).inputs[0].shape[1], *[WIDTH] * (depth - 1), 1]
    layers = [each for n, m in pairwise(widths) for each in (nn.Linear(n, m), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def loss(depth: int, seed: int, unbiased: bool, optimizer: str) -> float:
    """Return the mean loss of the last steps."""
    model = chain(depth, seed)
    if unbiased:
        gwt.init_(model, keep_fine=False, generator=torch.Generator().manual_seed(seed))
    update, draw, losses = OPTIMIZERS[optimizer](model), torch.Generator().manual_seed(1000 + seed), []
    for _ in range(STEPS):
        batch = TASK.draw(draw)
        value = TASK.loss(model(*batch.inputs), batch.target)
        update.zero_grad()
        value.backward()
        update.step()
        losses.append(value.item())
    return sum(losses[-LAST:]) / LAST


def drift(depth: int) -> float:
    """Return by how much torch's own weights change the gradient's log-norm, compared with unbiased ones."""
    rows = gwt.plan(chain(depth, 0), keep_fine=False).rows
    return sum(math.log(row.std / row.proposed) for row in rows if row.proposed)


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, required=True)
    page = parser.parse_args().page
    torch.set_num_threads(1)
    versions = f"gradwalk {gradwalk.__version__}, torch {torch.__version__}, {datetime.now(UTC):%Y-%m-%d}"
    lines = [
        "# Plain chains by depth",
        "",
        f"`python benchmarks/chains.py --page {page}`; {versions}. Median loss of {SEEDS} seeds after {STEPS} steps "
        "from torch's own weights and from unbiased ones (`init_` with `keep_fine=False`); shrinks: by how much the "
        "gradient shrinks from torch's own.",
        "",
        "| layers | shrinks | optimizer | own | unbiased | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for optimizer in OPTIMIZERS:
        for depth in DEPTHS:
            own, ours = (
                median(loss(depth, s, unbiased, optimizer) for s in range(SEEDS)) for unbiased in (False, True)
            )
            shrinks = f"{math.exp(-drift(depth)):.1e}"
            lines.append(f"| {depth} | {shrinks} | {optimizer} | {own:.3g} | {ours:.3g} | {ours / own:.2f} |")
    page.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

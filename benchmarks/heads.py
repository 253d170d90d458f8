"""Draws only the output layers of models written by others, or only the others: which of them make the difference?

Each model is trained as in `models.py`, from its own initialization, after its output layers were drawn with the gain
of what they read, and after all the others whose law is known were. Only layers that nothing but the output follows
count as output layers. `--targets 0.1` multiplies the targets of a regression and divides its loss by the square of it.

    PYTHONPATH=src zoo/bin/python benchmarks/heads.py vit lstm densenet segresnet
"""

import argparse
import statistics
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor
from zoo import CASES, Case
from zoo.case import Batch, Task
from zoo.outcome import SEEDS
from zoo.training import batches, built, trained

from gradwalk.torch import LayerRole, plan


@dataclass(frozen=True)
class Scaled:
    """A task with all its targets multiplied by a factor, and a loss that a model of zero does not notice it by."""

    task: Task
    factor: float

    def draw(self, generator: Generator) -> Batch:
        """Return a new batch."""
        batch = self.task.draw(generator)
        return batch._replace(target=self.factor * batch.target)

    def loss(self, output: Any, target: Any) -> Tensor:
        """Return the mean loss over a batch, in units of the targets."""
        return self.task.loss(output, target) / self.factor**2


def main() -> None:
    """Print one row per model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", choices=sorted(CASES), metavar="MODEL", help="names of models in zoo/")
    parser.add_argument("--targets", type=float, default=1.0, metavar="FACTOR", help="multiplies the targets")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    print("| model | targets | own | output layers drawn | ratio | the others drawn | ratio |")
    print("|---|---|---|---|---|---|---|")
    for name in options.models:
        case = CASES[name]
        if options.targets != 1:
            case = replace(case, task=Scaled(case.task, options.targets))
        print(_row(case, options.targets), flush=True)


def _row(case: Case, factor: float) -> str:
    heads, others = _parts(case)
    own = [trained(case, seed, initialised=False)["loss"] for seed in SEEDS]
    cells = [case.name, f"{factor:g}", _losses(own)]
    for names in (heads, others):
        drawn = [trained(case, seed, initialised=True, only=names)["loss"] for seed in SEEDS] if names else []
        ratio = f"{statistics.median(drawn) / statistics.median(own):.3g}" if drawn else ""
        cells += [_losses(drawn), ratio]
    return f"| {' | '.join(cells)} |"


def _parts(case: Case) -> tuple[list[str], list[str]]:
    """Return the names of the output layers whose law is known, and those of the other layers whose law is known."""
    rows = plan(built(case, SEEDS[0]), example=next(batches(case, SEEDS[0])).inputs, keep_fine=False).rows
    heads = [row.name for row in rows if row.role is LayerRole.HEAD]
    return heads, [row.name for row in rows if not row.reason and row.name not in heads]


def _losses(losses: Sequence[float]) -> str:
    return ", ".join(f"{loss:.3g}" for loss in losses)


if __name__ == "__main__":
    main()

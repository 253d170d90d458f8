"""`gradwalk train`."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradwalk.cli.gain import ACTIVATION
from gradwalk.cli.show import plain_warnings, print_table
from gradwalk.data import DATASETS

if TYPE_CHECKING:
    from gradwalk.data import Dataset
    from gradwalk.train import Run

_WEIGHTS = "gaussian or orthogonal, scaled by g; torch, xavier, kaiming, plain-orthogonal or lsuv, each by itself."
_LIST = "One, or several with commas between: the networks then train as a stack."


def train(
    context: typer.Context,
    data: Annotated[str, typer.Option(help=f"{', '.join(DATASETS.names)}.")] = "mnist",
    examples: Annotated[int | None, typer.Option(help="The first so many training examples; all of them.")] = None,
    scaling: Annotated[str, typer.Option(help="Inputs standardised by dimension, global, or none.")] = "dimension",
    task: Annotated[str, typer.Option(help="classify, or reconstruct: an auto-encoder.")] = "classify",
    activation: Annotated[str, typer.Option(help=ACTIVATION)] = "tanh",
    weights: Annotated[str, typer.Option(help=_WEIGHTS)] = "gaussian",
    depth: Annotated[int, typer.Option(help="Layers of weights.")] = 64,
    params: Annotated[
        float | None, typer.Option(help="Parameter limit, 4e6; the width is the first above it.", show_default=False)
    ] = None,
    width: Annotated[int | None, typer.Option(help="Of all hidden layers, in the place of --params.")] = None,
    gain: Annotated[str | None, typer.Option(help=f"g; left out, the unbiased one. {_LIST}")] = None,
    gain_in: Annotated[float, typer.Option(help="g_1, of the first layer.")] = 1.0,
    gain_out: Annotated[float | None, typer.Option(help="g_D, of the last layer; left out, g.")] = None,
    rate: Annotated[str, typer.Option(help=f"Learning rate of all layers. {_LIST}")] = "0.01",
    rate_in: Annotated[str | None, typer.Option(help=f"Of the first layer, if another. {_LIST}")] = None,
    rate_out: Annotated[str | None, typer.Option(help=f"Of the last layer, if another. {_LIST}")] = None,
    deepest: Annotated[int | None, typer.Option(help="D_max of the schedule of rates; left out, the depth.")] = None,
    bias_rate: Annotated[float, typer.Option(help="Of the biases, over the weights'; 0 freezes them.")] = 1.0,
    optimizer: Annotated[str, typer.Option(help="How gradients become updates: sgd.")] = "sgd",
    weight_decay: Annotated[float, typer.Option(help="Weight decay, per unit of learning rate.")] = 0.0,
    decay: Annotated[float, typer.Option(help="Of all rates, after each epoch.")] = 0.995,
    batch: Annotated[int, typer.Option(help="Examples in a minibatch.")] = 100,
    clip: Annotated[float, typer.Option(help="Greatest norm of the gradient; 0: any.")] = 10.0,
    epochs: Annotated[int, typer.Option(help="Passes over the training examples.")] = 20,
    stop_at_zero: Annotated[bool, typer.Option("--stop-at-zero", help="End once there is no mistake.")] = False,
    seed: Annotated[str, typer.Option(help=f"Of the initial weights. {_LIST}")] = "0",
    data_seed: Annotated[int, typer.Option(help="Of the order of the examples.")] = 0,
    threads: Annotated[int | None, typer.Option(help="Cores to use; all.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")] = "cpu",
    out: Annotated[Path, typer.Option(help="Folder for metrics, curves, networks and checkpoints.")] = Path(
        "gradwalk-training"
    ),
) -> None:
    """Train a very deep network, or a stack of them, from weights at the unbiased scale.

    Started again with the same --out, it goes on where it was.

    Examples:

    `gradwalk train --data digits --depth 64 --params 1e5 --epochs 30 --out digits-64`

    `gradwalk train --data mnist --depth 100 --params 1e6 --gain 1.0,1.1,1.2 --seed 0,1 --out stack`

    `gradwalk train --data mnist --task reconstruct --depth 16 --params 5e5 --rate 1.0`
    """
    from gradwalk import data as data_sets
    from gradwalk.train import Run, checked_run

    grid = {
        "gain": [None] if gain is None else _numbers("gain", gain, float),
        "rate_in": _numbers("rate-in", rate_in or rate, float),
        "rate_out": _numbers("rate-out", rate_out or rate, float),
        "seed": _numbers("seed", seed, int),
    }
    combinations = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if rate_in is None and rate_out is None:
        combinations = [each for each in combinations if each["rate_in"] == each["rate_out"]]
    settings = {name: context.params[name] for name in Run.model_fields if name not in grid} | {"clip": clip or None}
    if params is None:  # the run's default, or none beside a width
        del settings["params"]
    runs = [checked_run("train", **settings, **each) for each in combinations]
    loaded = data_sets.load(data, examples=examples, scaling=runs[0].scaling)
    with plain_warnings():
        _train(runs, loaded, out, threads, device)


def _train(runs: "list[Run]", data: "Dataset", out: Path, threads: int | None, device: str) -> None:
    from gradwalk import train as training
    from gradwalk.cli.training import Reporter, announcement, draw, summary
    from gradwalk.train.folder import TrainingFolder

    print(announcement(runs, data))
    folder = TrainingFolder(out, runs)
    with Reporter(runs, data, folder) as reporter:
        outcomes = training.train(
            runs, data, device=device, threads=threads, folder=folder.checkpoints, watcher=reporter
        )
    print_table(summary(outcomes, data))
    draw(outcomes, data, out / "curve.png")
    print(f"written: {out / 'metrics.csv'}, {out / 'curve.png'} and the networks beside them")


def _numbers(name: str, text: str, kind: Callable[[str], Any]) -> list[Any]:
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"train: --{name}: a number, or several with commas between, got {text!r}") from None

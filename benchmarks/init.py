"""The cost and the effect of `init_`: against kaiming_normal_ on real models, and against its peers on deep MLPs.

Both sides of the first table also set the biases to 0. Gains are cached by a first call before the clock starts; the
time of that call is a column of its own, since the gains of tanh and the like are solved for by sampling. Nothing else
is cached: every call finds the layers of the model again.

The second table has the final log-norm of the gradient, ln of |delta| at the first layer over |delta| at the last, as
`probe` measures it on 100 random inputs with a random gradient at the output: its mean and standard deviation over
seeds. kaiming_normal_ has torch's own gain for the activation, or that of ReLU where torch has none; orthogonal_ has
sqrt 2 for ReLU and 1 otherwise. LSUV and AnyInit are the packages of their authors, with default settings.
"""

import functools
import math
import signal
import statistics
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyinit
import lsuv
import torch
from setting import Answer, Spread, Table, main, number, seconds
from torch import nn

import gradwalk.torch as gwt
from gradwalk.gains import UnsteadyWarning

WIDTH = 100
DEPTHS = {20: 50, 200: 8, 1000: 3}  # depth: seeds
ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "elu": nn.ELU, "selu": nn.SELU, "gelu": nn.GELU}
PATIENCE = 15.0  # seconds that a peer may take per network
ENOUGH = 10.0  # seconds after which no further seed is drawn, after at least two


def mlp(depth: int, width: int, activation: Callable[[], nn.Module]) -> nn.Sequential:
    """Return an MLP of constant width with that many weight layers."""
    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), activation())]
    return nn.Sequential(*layers[:-1])


class ConvNet(nn.Module):
    """Twenty convolutions in a loop, so that the model has to be traced."""

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


def each_weight_(model: nn.Module, fill_: Callable[[torch.Tensor], object]) -> None:
    """Fill the weights of all layers and set the biases to 0, as users do today."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            fill_(module.weight)
            nn.init.zeros_(module.bias)


def kaiming(model: nn.Module, generator: torch.Generator, name: str = "relu") -> None:
    """Initialise with kaiming_normal_, the most common choice."""
    nonlinearity = name if name in ("relu", "tanh", "selu") else "relu"
    fill_ = functools.partial(nn.init.kaiming_normal_, nonlinearity=nonlinearity, generator=generator)
    each_weight_(model, fill_)


def orthogonal(model: nn.Module, generator: torch.Generator, name: str) -> None:
    """Initialise with orthogonal_."""
    gain = math.sqrt(2) if name == "relu" else 1.0
    each_weight_(model, functools.partial(nn.init.orthogonal_, gain=gain, generator=generator))


def init(model: nn.Module, generator: torch.Generator, name: str) -> None:
    """Initialise with gradwalk."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsteadyWarning)
        gwt.init_(model, generator=generator, keep_fine=False)


def unit_variance(model: nn.Module, generator: torch.Generator, name: str) -> None:
    """Initialise with the package lsuv, which uses the global random state of torch."""
    torch.manual_seed(generator.initial_seed())
    lsuv.lsuv_with_singlebatch(model, torch.randn(100, WIDTH, generator=generator), verbose=False)


def any_init(model: nn.Module, generator: torch.Generator, name: str) -> None:
    """Initialise with the package anyinit."""
    anyinit.initialize(model, seed=generator.initial_seed())


METHODS: dict[str, Callable[[nn.Module, torch.Generator, str], None]] = {
    "init_": init,
    "kaiming_normal_": kaiming,
    "orthogonal_": orthogonal,
    "LSUV": unit_variance,
    "AnyInit": any_init,
}


def beside_kaiming(name: str, rounds: int) -> dict[str, Any]:
    """Return one row: the first call, and both sides with their ratio, timed in turns."""
    model, generator = MODELS[name](), torch.Generator().manual_seed(0)
    first = seconds(lambda: gwt.init_(model, generator=generator, keep_fine=False))
    for row in gwt.init_(model, generator=generator, keep_fine=False).drawn:  # check the result before timing it
        weight = model.get_parameter(f"{row.name}.weight")
        assert abs(weight.std().item() / row.proposed - 1) < 0.05, row
    pairs = [
        (seconds(lambda: init(model, generator, "")), seconds(lambda: kaiming(model, generator))) for _ in range(rounds)
    ]
    ours, theirs = zip(*pairs, strict=True)
    ratios = [our / their for our, their in pairs]
    spreads = {"init_": Spread.of(ours), "kaiming_normal_": Spread.of(theirs), "ratio": Spread.of(ratios)}
    return {"model": name, "first": first} | {key: vars(spread) for key, spread in spreads.items()}


@contextmanager
def limited(most: float) -> Iterator[None]:
    """Raise TimeoutError if the block takes more than `most` seconds."""

    def expire(*_: object) -> None:
        raise TimeoutError(f"not done within {most:.0f} s")

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, most)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def log_norm(model: nn.Module, seed: int) -> float:
    """Return the final log-norm of the gradient, with a random gradient at the output."""
    generator = torch.Generator().manual_seed(1000 + seed)
    x, delta = torch.randn(2, 100, WIDTH, generator=generator)
    return float(gwt.probe(model, x, lambda output: (output * delta).sum()).log_norm[0])


def among_peers(depth: int, name: str, seeds: int) -> list[dict[str, Any]]:
    """Return one row per method; methods take turns, seed by seed, until they run out of time or fail."""
    samples: dict[str, list[tuple[float, float]]] = {method: [] for method in METHODS}
    first, failed = {}, {}
    for seed in range(-1, seeds):  # -1: a first call, which solves for gains and fills caches
        for method, init_ in METHODS.items():
            if method in failed or (len(samples[method]) >= 2 and sum(t for t, _ in samples[method]) > ENOUGH):
                continue
            model, generator = mlp(depth, WIDTH, ACTIVATIONS[name]), torch.Generator().manual_seed(seed + 1)
            try:
                with limited(PATIENCE):
                    took = seconds(functools.partial(init_, model, generator, name))
            except Exception as error:  # a failure of a peer is a result
                if method == "init_":
                    raise
                failed[method] = str(error) if isinstance(error, TimeoutError) else type(error).__name__
                continue
            if seed < 0:
                first[method] = took
            if seed >= 0 or took > ENOUGH / 2:
                samples[method].append((took, log_norm(model, seed)))
    rows = []
    for method, pairs in samples.items():
        row = {"depth": depth, "activation": name, "method": method, "failed": failed.get(method)}
        if len(pairs) >= 2:
            times, ends = zip(*pairs, strict=True)
            row |= {"seconds": vars(Spread.of(times)), "first": first[method], "seeds": len(ends)}
            row |= {"mean": statistics.mean(ends), "sd": statistics.stdev(ends), "log_norms": ends}
        rows.append(row)
    return rows


def measure(quick: bool) -> Answer:
    """Return both tables."""
    answer = Answer()
    heads = ("model", "init_, ms", "kaiming_normal_, ms", "ratio", "first call, ms")
    table = Table("init_ against kaiming_normal_", heads)
    answer.tables.append(table)
    for name in MODELS:
        row = beside_kaiming(name, 3 if quick else 21)
        answer.numbers.append(row)
        ours, theirs = (number(1e3 * row[key]["median"]) for key in ("init_", "kaiming_normal_"))
        table.add(name, ours, theirs, Spread(**row["ratio"]), number(1e3 * row["first"]))
    heads = ("depth", "activation", "method", "seconds per network", "first call, s", "log-norm: mean", "sd", "seeds")
    table = Table(f"init_ and its peers: MLPs of width {WIDTH}, final log-norm of the gradient", heads)
    answer.tables.append(table)
    for depth, seeds in DEPTHS.items():
        for name in ACTIVATIONS:
            if name == "gelu" and depth > 20:  # unsteady: no gain serves it
                continue
            for row in among_peers(depth, name, 2 if quick else seeds):
                answer.numbers.append(row)
                table.add(depth, name, row["method"], *_cells(row))
    _aims(answer)
    return answer


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    if "mean" not in row:
        return (row["failed"], *[""] * 4)
    times = (str(Spread(**row["seconds"])), number(row["first"]))
    return (*times, f"{row['mean']:+.2f}", f"{row['sd']:.2f}", str(row["seeds"]))


def _aims(answer: Answer) -> None:
    for row in answer.numbers:
        if "model" in row:
            ratio = row["ratio"]["median"]
            answer.aim(f"init_ at most 1.2 times kaiming_normal_, {row['model']}", number(ratio), ratio <= 1.2)
    rows = {(row["depth"], row["activation"], row["method"]): row for row in answer.numbers if "mean" in row}
    speedups = [
        rows[200, name, "LSUV"]["seconds"]["median"] / rows[200, name, "init_"]["seconds"]["median"]
        for name in ACTIVATIONS
        if (200, name, "LSUV") in rows
    ]
    answer.aim(
        "init_ at least 100 times as fast as LSUV at D=200", f"{number(min(speedups))} or more", min(speedups) >= 100
    )
    for depth in DEPTHS:
        for name in ("tanh", "elu", "selu"):
            ours = rows[depth, name, "init_"]
            error = 2 * ours["sd"] / math.sqrt(ours["seeds"])
            others = {
                method: abs(row["mean"])
                for (*where, method), row in rows.items()
                if where == [depth, name] and method != "init_" and math.isfinite(row["mean"])
            }
            best = min(others, key=lambda method: others[method])
            answer.aim(
                f"|mean log-norm| of init_ not larger than any peer's, {name}, D={depth}",
                f"{abs(ours['mean']):.2f} ± {error:.2f} against {others[best]:.2f} ({best})",
                abs(ours["mean"]) <= others[best],
            )


if __name__ == "__main__":
    main(__doc__, measure)

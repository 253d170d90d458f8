"""Synthetic tables for tests of the report: each like its figure's own, with numbers that a test chooses."""

import itertools
from collections.abc import Callable

import numpy as np
import pandas as pd

from gradwalk.figures import Table

MADE = {
    "scale": "paper",
    "date": "2026-11-15 21:12 UTC",
    "seconds": "43.0",
    "machine": "x86_64, 2 cores, Linux",
    "versions": "gradwalk 0.1.0, python 3.11.7, numpy 2.4.6",
}
PARAMS = {"fig3": 4e6, "fig4a": 4e6, "fig4b": 16e6, "fig4c": 62e6, "fig4d": 4e6}

# Errors by depth that bear the paper out, the opposite, and a scale that decides nothing.
MNIST_ORDER = {2: 0.001, 4: 0.004, 16: 0.002, 32: 0.002, 128: 0.005}
REVERSED = {2: 0.005, 4: 0.001, 16: 0.003, 32: 0.004, 128: 0.002}
ENCODER = {4: 0.05, 16: 0.06, 128: 0.1}
PIXELS = {"scaling": "global", "pca": 0.12, "constant": 0.5}
PHONES = {4: 0.02, 16: 0.01, 32: 0.0105, 64: 0.03}
LITTLE = {"data": "digits", "examples": 1442, "epochs": 4}

Error = Callable[..., float | None]


def walks(
    end: float = 0.0, slope: float = 1.0, power: float = -1.0, depth: int = 500, bend: float = 1.0, walks: int = 4000
) -> Table:
    """Figure 1: the mean ends at `end`, the variance has `slope` times the printed slope and scales as N^power.

    bend: the power of the depth with which the variance grows.
    """
    travelled = np.arange(depth + 1.0)
    variance = slope * depth / 200 * (travelled / depth) ** bend
    columns = {
        "travelled": travelled,
        "mean": end * travelled / depth,
        "standard_error": np.sqrt(variance / walks),
        "variance": variance,
        "printed": travelled / 200,
        "exact": travelled * 0.00505,
        "walk_1": np.sin(travelled / 20),
        "walk_2": np.cos(travelled / 20) - 1,
    }
    others = {f"variance_{n}": slope / 200 * (n / 100) ** power for n in (25, 50, 200, 400)}
    facts = {"width": 100.0, "depth": float(depth), "walks": float(walks), "gain": 1.005013, "seed": 0.0}
    return Table.of(columns, facts | others, {key: words for key, words in MADE.items() if key != "scale"})


def gains(
    off: float = 0.0,
    tanh: Callable[[float], float] = lambda width: 1.2,
    wide: tuple[float, float, float] = (1, 1, 7),
    relu: float = 1.43,
) -> Table:
    """Figure 2: the simulated g of linear and ReLU exceed the printed by a share `off`; usable ranges are `wide` %."""
    rows = []
    for name, centre, percent in zip(("linear", "relu", "tanh"), (1.005, relu, 1.14), wide, strict=True):
        for width in (10.0, 20.0, 50.0, 100.0, 200.0, 500.0):
            printed = np.nan if name == "tanh" else centre
            best = tanh(width) if name == "tanh" else centre * (1 + off)
            rows.append(("best", name, width, best, 0.001, np.nan, np.nan, printed, printed))
        for mean in np.linspace(-4, 4, 9):
            g = centre * (1 + percent / 200 * mean)
            rows.append(("mean", name, 100.0, g, np.nan, mean, 0.1, np.nan if name == "tanh" else centre, centre))
    names = ("panel", "activation", "width", "gain", "gain_error", "mean", "mean_error", "printed", "ours")
    facts = {"width": 100.0, "depth": 200.0, "walks_best": 200.0, "walks_mean": 400.0, "seed": 0.0}
    made = {key: words for key, words in MADE.items() if key != "scale"}
    return Table.of([dict(zip(names, row, strict=True)) for row in rows], facts, made)


def trained(figure: str, error: Error, *, made: dict[str, str] = MADE, **settings: object) -> Table:
    """Return a table of `runs`."""
    return Table.of(runs(figure, error, **settings), made=made)


def runs(
    figure: str,
    error: Error,
    *,
    data: str = "mnist",
    examples: int = 60_000,
    epochs: int = 500,
    constant: float = 0.9,
    by_epoch: bool = False,
    share: float = 1.0,
    decay: float = 0.995,
    scaling: str = "dimension",
    pca: float = np.nan,
    **grid: object,
) -> list[dict[str, object]]:
    """Return one row per run; `error` returns that of a run with these settings, None if it diverges in the end.

    share: of the paper's parameters. pca: the error of PCA. by_epoch: rows for the first epoch, the middle one and the
    last, instead of one row per run.
    """
    every = {
        "activation": ["tanh"],
        "depth": [4],
        "gain": [1.1],
        "rate_in": [0.01],
        "rate_out": [0.01],
        "weights": ["gaussian"],
        "width": [{"fig4c": 249}.get(figure, 100)],
        "seed": [0],
        "optimizer": ["sgd"],
        "weight_decay": [0.0],
    } | grid
    task = "reconstruct" if figure == "fig4b" else "classify"
    rows = []
    for values in itertools.product(*every.values()):
        settings = dict(zip(every, values, strict=True))
        last = error(**settings)
        for epoch in sorted({1, (epochs + 1) // 2, epochs}) if by_epoch else [epochs]:
            at = constant if by_epoch and epoch < epochs else np.nan if last is None else last
            rows.append(_row(settings, task, data, examples, epoch, constant, at, last is None, PARAMS[figure] * share))
    common = {"decay": decay, "epochs": epochs, "scaling": scaling, "pca_error": pca, "batch": 100, "clip": 10.0}
    return [row | common for row in rows]


def _row(settings, task, data, examples, epoch, constant, error, diverged, params) -> dict[str, object]:
    mistakes = round(error * examples) if task == "classify" and error == error else np.nan
    return settings | {
        "data": data,
        "train_examples": examples,
        "test_examples": 10_000,
        "task": task,
        "params": params,
        "gain_in": settings["gain"],
        "status": "diverged" if diverged else "done",
        "diverged": epoch if diverged else np.nan,
        "epoch": epoch,
        "clipped": 0,
        "clipped_first": 0,
        "clipped_last": 0,
        "seconds": 1.0,
        "train_error": error,
        "train_mistakes": mistakes,
        "train_loss": error,
        "test_error": error,
        "test_mistakes": mistakes,
        "test_loss": error,
        "lowest_error": error,
        "constant_error": constant,
    }


TANH, RELU = [0.9, 1.0, 1.1, 1.2, 1.4, 1.6], [1.0, 1.2, 1.4, 1.5, 1.55, 1.8]


def by_gain(tanh: float = 1.2, relu: float = 1.5, least: float = 0.001, slope: float = 0.1, **more: object) -> Table:
    """Figure 3: the best g of both activations, where the error is `least`; it grows by `slope` per unit of g."""
    depths = [4, 16, 64]
    parts = [
        trained(
            "fig3",
            lambda gain, best=best, **_: least + slope * abs(gain - best),
            activation=[name],
            depth=depths,
            gain=g,
            **more,
        )
        for name, best, g in (("tanh", tanh, TANH), ("relu", relu, RELU))
    ]
    return joined(parts)


def joined(parts: list[Table]) -> Table:
    """Return one table of the rows of several."""
    return Table.of(pd.concat([part.frame for part in parts], ignore_index=True), made=parts[0].made)


def by_depth(figure: str, errors: dict[int, float | None], schedule: float = 4.0, **more: object) -> Table:
    """Figure 4A, 4B or 4D: the least error of each depth, which equal rates multiply by `schedule`."""

    def error(depth: int, rate_in: float, rate_out: float, **_: object) -> float | None:
        least = errors[depth]
        return least if least is None or rate_in != rate_out else least * schedule

    gains = {"fig4d": [1.1, 1.25]}.get(figure, [1.05, 1.2])
    settings = {"depth": list(errors), "gain": gains, "rate_in": [0.01, 0.1], "rate_out": [0.01, 0.1]}
    return trained(figure, error, **settings | more)


def by_epoch(
    mistakes: float, schedule: float = 4.0, epochs: int = 500, examples: int = 60_000, **more: object
) -> Table:
    """Figure 4C: the mistakes of the best run at its end, which equal rates multiply by `schedule`."""

    def error(rate_in: float, rate_out: float, **_: object) -> float:
        return mistakes / examples * (schedule if rate_in == rate_out else 1)

    settings = {"depth": [1000], "gain": [1.05], "rate_in": [0.001, 0.01], "rate_out": [0.001, 0.01]}
    return trained("fig4c", error, epochs=epochs, examples=examples, by_epoch=True, **settings | more)


def by_slope(
    figure: str,
    depth: int,
    equal: float | None,
    unequal: float | None,
    *,
    best: int = 1,
    levels: int = 4,
    equal_levels: int = 4,
    seeds: int = 3,
    noise: float = 0.0,
    **more: object,
) -> Table:
    """Figure 4: several levels of rates with slopes down, even and up, where level `best` has the least errors.

    noise: of the error with equal rates, relative, up for the first seed and down for the last.
    """

    def rows(level: int, slope: float) -> list[dict[str, object]]:
        def error(seed: int, **_: object) -> float | None:
            least = equal if slope == 1 else unequal
            spread = 1 + (noise * (1 - seed) if slope == 1 else 0)
            return None if least is None else least * spread * (1 + abs(level - best) / 10)

        rate = 0.001 * 4**level
        rates = {"rate_in": [rate / slope], "rate_out": [rate * slope], "seed": list(range(seeds))}
        return runs(figure, error, **{"depth": [depth], "by_epoch": figure == "fig4c"} | rates | more)

    counts = {0.5: levels, 1.0: equal_levels, 2.0: levels}
    every = [rows(level, slope) for slope, count in counts.items() for level in range(count)]
    return Table.of(list(itertools.chain.from_iterable(every)), made=MADE)


def every_figure() -> dict[str, Table]:
    """All figures of the paper, small enough for a page that is opened in a browser."""
    return {
        "fig1": walks(),
        "fig2": gains(),
        "fig3": by_gain(1.25, slope=0.05, least=0.0),
        "fig4a": by_depth("fig4a", MNIST_ORDER | {128: None}),
        "fig4b": by_depth("fig4b", ENCODER, **PIXELS),
        "fig4c": by_epoch(50, epochs=12, weights=["gaussian", "orthogonal"]),
        "fig4d": by_depth("fig4d", PHONES, data="TIMIT"),
    }

"""`gradwalk walk`."""

import json
import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import gradwalk
from gradwalk import activations, checks
from gradwalk.activations import Array
from gradwalk.checks import Weights
from gradwalk.cli.gain import ACTIVATION, JSON, WEIGHTS, WIDTH, widths_of
from gradwalk.cli.show import plain_warnings, print_table, show
from gradwalk.simulation import Method, Walks

_QUANTILES = (0.05, 0.95)
_CELLS = 4_000_000  # numbers kept of a walk; past that, not every layer
_DRAWN = 60


def walk(
    activation: Annotated[str, typer.Argument(metavar="ACTIVATION", help=ACTIVATION)],
    width: Annotated[str, typer.Option(help=WIDTH)],
    depth: Annotated[int | None, typer.Option(help="Layers of weights; not needed with all widths.")] = None,
    gain: Annotated[float | None, typer.Option(help="Of all weights; left out, the unbiased one.")] = None,
    walks: Annotated[int, typer.Option(help="Networks to sample.")] = 400,
    weights: Annotated[Weights, typer.Option(help=WEIGHTS)] = "gaussian",
    seed: Annotated[int, typer.Option(help="Of the samples.")] = 0,
    method: Annotated[Method, typer.Option(help="exact, or dense: matrices are drawn.")] = "exact",
    out: Annotated[Path | None, typer.Option(help="Draw the walks there: .png, .pdf or .svg.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON)] = False,
) -> None:
    """Sample walks of the gradient's log-norm through random networks.

    Examples:

    `gradwalk walk relu --width 100 --depth 500 --out walk.png`

    `gradwalk walk tanh --width 100 --depth 200 --gain 1.0 --walks 100`
    """
    if out is not None:
        _check_picture(out)
    layers = checks.widths("walk", widths_of(width), depth)
    with plain_warnings():
        g = gradwalk.gain(activation, layers, weights=weights, seed=seed) if gain is None else gain
    sampled = gradwalk.simulate(
        activation,
        layers,
        gain=g,
        walks=walks,
        rng=seed,
        weights=weights,
        method=method,
        every=max(1, math.ceil((len(layers) - 1) * walks / _CELLS)),
    )
    answer = _walk_answer(activations.activation(activation).name, g, sampled)
    if out is not None:
        _draw_walk(out, answer, sampled, _predicted(activation, layers, g, weights))
        answer["out"] = str(out)
    if as_json:
        print(json.dumps(answer))
    else:
        _show_walk(answer)


def _walk_answer(name: str, gain: float, sampled: Walks) -> dict[str, Any]:
    columns = np.unique(np.linspace(0, len(sampled.layers) - 1, 5).round().astype(int))
    low, high = np.quantile(sampled.log_norm[:, columns], _QUANTILES, axis=0)
    means = sampled.log_norm[:, columns].mean(axis=0)
    layers = zip(sampled.layers[columns], means, low, high, strict=True)
    several = len(sampled.final) > 1  # one walk has no spread, and JSON no NaN
    return {
        "activation": name,
        "depth": int(sampled.layers[0]),
        "walks": len(sampled.final),
        "gain": gain,
        "mean": sampled.mean,
        "standard_error": sampled.standard_error if several else None,
        "spread": sampled.spread if several else None,
        "dead": sampled.resampled,
        "layers": [
            {"layer": int(d), "mean": float(mean), "p5": float(p5), "p95": float(p95)} for d, mean, p5, p95 in layers
        ],
    }


def _show_walk(answer: dict[str, Any]) -> None:
    error, spread = answer["standard_error"], answer["spread"]
    lines = [
        ("gain g", f"{answer['gain']:.6f}"),
        ("mean of the final log-norm", f"{answer['mean']:+.3f}" + (f" ± {error:.3f}" if error is not None else "")),
        ("spread over the walks", f"{spread:.3f}" if spread is not None else "unknown from one walk"),
        ("dead layers, drawn anew", f"{answer['dead']}"),
    ]
    show(lines, f"{answer['activation']}, depth {answer['depth']}, {answer['walks']} walks")
    rows = [["layer", "mean log-norm", "5 %", "95 %"]]
    for at in answer["layers"]:
        rows.append([f"{at['layer']}", *(f"{at[name]:+.3f}" for name in ("mean", "p5", "p95"))])
    print_table(rows)
    if "out" in answer:
        print(f"written: {answer['out']}")


def _predicted(activation: str, layers: tuple[int, ...], gain: float, weights: Weights) -> tuple[Array, Array] | None:
    """Return the predicted mean and standard deviation of the log-norm at layers D to 0, where theory has them."""
    if gradwalk.kind(activation) != "neutral":
        return None
    steps = {n: gradwalk.step(activation, n, weights=weights) for n in set(layers)}
    back = [steps[n] for n in reversed(layers[:-1])]
    mean = np.cumsum([0.0, *(math.log(gain) + step.drift / 2 for step in back)])
    variance = np.cumsum([0.0, *(step.variance / 4 for step in back)])
    return mean, np.sqrt(variance)


def _draw_walk(path: Path, answer: dict[str, Any], sampled: Walks, predicted: tuple[Array, Array] | None) -> None:
    from gradwalk import figures

    figure, panels = figures.canvas(1, 1, (6.8, 4.2))
    panel, travelled = panels[0, 0], (sampled.layers[0] - sampled.layers).astype(float)
    figures.plot_walks(panel, travelled, sampled.log_norm[:_DRAWN])
    figures.zero_line(panel, figures.GREEN)
    panel.plot(travelled, sampled.log_norm.mean(axis=0), color=figures.BLACK, linewidth=2, label="mean of all walks")
    if predicted is None:
        centre, sd, label = sampled.log_norm.mean(axis=0), sampled.log_norm.std(axis=0), "measured, ± 2 s.d."
    else:
        at = travelled.astype(int)
        centre, sd, label = predicted[0][at], predicted[1][at], "predicted, ± 2 s.d."
    for index, edge in enumerate((centre - 2 * sd, centre + 2 * sd)):
        panel.plot(travelled, edge, color=figures.RED, linestyle="--", label=None if index else label)
    panel.set_xlabel("layers travelled back, d")
    panel.set_title(f"{answer['activation']}, D = {answer['depth']}, g = {answer['gain']:.5g}", fontsize=10)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    figures.save(figure, [path])


def _check_picture(path: Path) -> None:
    """Say before anything is sampled that the picture cannot be written."""
    from gradwalk import figures

    figures.ending(path)
    new = not path.exists()
    with path.open("ab"):
        pass
    if new:
        path.unlink()

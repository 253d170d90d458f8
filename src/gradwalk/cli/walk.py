"""`gradwalk walk`."""

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

import gradwalk
from gradwalk import checks
from gradwalk.checks import Weights
from gradwalk.cli.gain import WEIGHTS, WIDTH, Activation, widths_of
from gradwalk.cli.paths import path_option
from gradwalk.cli.show import JSON, plain_warnings, print_table, show
from gradwalk.simulation import Method, Walks

_CELLS = 4_000_000  # log-norms to keep; larger simulations keep a part of the layers


def walk(
    activation: Activation,
    width: Annotated[str, typer.Option(help=WIDTH)],
    depth: Annotated[int | None, typer.Option(help="Number of weight layers; required with one width.")] = None,
    gain: Annotated[float | None, typer.Option(help="Gain of all layers (default: the unbiased gain).")] = None,
    walks: Annotated[int, typer.Option(help="Number of networks to sample.")] = 400,
    weights: Annotated[Weights, typer.Option(help=WEIGHTS)] = "gaussian",
    seed: Annotated[int, typer.Option(help="Seed of the samples.")] = 0,
    method: Annotated[Method, typer.Option(help="exact samples without matrices; dense draws them.")] = "exact",
    out: Annotated[Path | None, path_option("Draw the walks to this .png, .pdf or .svg file.")] = None,
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
    every = max(1, math.ceil((len(layers) - 1) * walks / _CELLS))
    sampled = gradwalk.simulate(
        activation, layers, gain=g, walks=walks, rng=seed, weights=weights, method=method, every=every
    )
    if out is not None:
        _save_picture(sampled, out)
    if as_json:
        print(json.dumps(_record(sampled, g) | ({} if out is None else {"out": str(out)})))
    else:
        _show(sampled, g)
        if out is not None:
            print(f"written: {out}")


def _record(walks: Walks, gain: float) -> dict[str, Any]:
    """Return the JSON object; a single walk has no spread, which is null."""
    several = len(walks.final) > 1
    return {
        "activation": str(walks.activation),
        "depth": walks.depth,
        "walks": len(walks.final),
        "gain": gain,
        "mean": walks.mean,
        "standard_error": walks.standard_error if several else None,
        "spread": walks.spread if several else None,
        "resampled": walks.resampled,
        "layers": [row._asdict() for row in walks.summary()],
    }


def _show(walks: Walks, gain: float) -> None:
    several = len(walks.final) > 1
    lines = [
        ("gain g", f"{gain:.6f}"),
        ("mean of the final log-norm", f"{walks.mean:+.3f}" + (f" ± {walks.standard_error:.3f}" if several else "")),
        ("spread over the walks", f"{walks.spread:.3f}" if several else "unknown from a single walk"),
        ("inactive layers, resampled", f"{walks.resampled}"),
    ]
    show(lines, f"{walks.activation}, depth {walks.depth}, {len(walks.final)} walks")
    rows = [(f"{row.layer}", f"{row.mean:+.3f}", f"{row.p5:+.3f}", f"{row.p95:+.3f}") for row in walks.summary()]
    print_table([("layer", "mean log-norm", "5 %", "95 %"), *rows])


def _save_picture(walks: Walks, path: Path) -> None:
    from gradwalk import figures
    from gradwalk.figures.walks_picture import draw_walks

    figures.save(draw_walks(walks), [path])


def _check_picture(path: Path) -> None:
    """Raise before anything is sampled if the picture cannot be written."""
    from gradwalk import figures

    figures.ending(path)
    new = not path.exists()
    with path.open("ab"):
        pass
    if new:
        path.unlink()

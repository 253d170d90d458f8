"""`gradwalk directions` and `gradwalk advise`."""

import json
import math
from dataclasses import asdict
from typing import Annotated, Any

import typer

import gradwalk
from gradwalk.checks import Weights
from gradwalk.cli.gain import WEIGHTS, WIDTH, Activation, widths_of
from gradwalk.cli.show import JSON, print_table, show
from gradwalk.remedies import ENOUGH

_SEED = "Seed of the samples."


def directions(
    activation: Activation,
    width: Annotated[str, typer.Option(help=WIDTH)],
    depth: Annotated[int | None, typer.Option(help="Number of weight layers; required with one width.")] = None,
    weights: Annotated[Weights, typer.Option(help=WEIGHTS)] = "gaussian",
    gain: Annotated[float | None, typer.Option(help="Gain of all layers (default: the unbiased gain).")] = None,
    networks: Annotated[int | None, typer.Option(help="Number of networks to sample.")] = None,
    seed: Annotated[int, typer.Option(help=_SEED)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help=JSON)] = False,
) -> None:
    """Print how many directions pass through random networks, backward and forward.

    Examples:

    `gradwalk directions tanh --width 64 --depth 256`

    `gradwalk directions gelu@0.8 --width 64 --depth 256 --weights orthogonal`
    """
    found = gradwalk.directions(
        activation, widths_of(width), depth, weights=weights, gain=gain, networks=networks, seed=seed
    )
    if as_json:
        print(json.dumps(asdict(found)))
    else:
        show(found.rows(), f"{found.activation}, width {width}, depth {found.depth}")


def advise(
    activation: Activation,
    width: Annotated[int, typer.Option(help="Units per layer.")],
    depth: Annotated[int, typer.Option(help="Number of weight layers.")],
    directions: Annotated[float, typer.Option(help="How many directions must pass.")] = ENOUGH,
    seed: Annotated[int, typer.Option(help=_SEED)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help=JSON)] = False,
) -> None:
    """Print what to change so that enough directions pass: remedies, ranked, with their price.

    nonlinear: the share of the output's variance that is no linear function of the input; at 0 the network is linear.

    Examples:

    `gradwalk advise relu --width 64 --depth 200`

    `gradwalk advise gelu --width 48 --depth 1000 --directions 4`
    """
    advice = gradwalk.advise(activation, width, depth, directions=directions, seed=seed)
    if as_json:
        print(json.dumps(_finite(asdict(advice))))
    else:
        print(advice.headline)
        print_table(advice.cells())


def _finite(value: Any) -> Any:
    """Return nested values with null for numbers that are not finite, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

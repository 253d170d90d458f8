"""`gradwalk gain` and `gradwalk activations`."""

import json
from typing import Annotated, Any

import numpy as np
import typer

import gradwalk
from gradwalk import activations
from gradwalk.checks import Formula, Weights
from gradwalk.cli.completion import activation_names, names_of
from gradwalk.cli.show import JSON, Line, print_table, show, warn
from gradwalk.gains import GainDescription

ACTIVATION = "Name of an activation, as listed by `gradwalk activations`."
WIDTH = "Units per layer, or all widths, comma-separated, input first: 784,300,100."
WEIGHTS = "Distribution of the weights."

Activation = Annotated[
    str, typer.Argument(metavar="ACTIVATION", help=ACTIVATION, autocompletion=names_of(activation_names))
]


def gain(
    activation: Activation,
    width: Annotated[str, typer.Option(help=WIDTH)],
    depth: Annotated[
        int | None,
        typer.Option(help="Number of weight layers; required with one width, except for linear, relu and leaky_relu."),
    ] = None,
    weights: Annotated[Weights, typer.Option(help=WEIGHTS)] = "gaussian",
    formula: Annotated[Formula, typer.Option(help="exact, or eq. 13 and 18 as printed in the paper.")] = "exact",
    seed: Annotated[int, typer.Option(help="Seed of the walks that are sampled where no formula is exact.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help=JSON)] = False,
) -> None:
    """Print the gain that makes the walk unbiased, and related quantities.

    Examples:

    `gradwalk gain relu --width 100`

    `gradwalk gain tanh --width 100 --depth 200`

    `gradwalk gain "leaky_relu(0.2)" --width 784,300,100,10 --json`
    """
    described = gradwalk.describe_gain(activation, widths_of(width), depth, weights=weights, formula=formula, seed=seed)
    if described.warning is not None:
        warn(described.warning)
    if as_json:
        print(json.dumps(_record(described)))
    else:
        title = f"{described.activation}, width {width}" + (f", depth {described.depth}" if described.depth else "")
        show(_lines(described), title)


def list_activations(as_json: Annotated[bool, typer.Option("--json", help=JSON)] = False) -> None:
    """List the activations with their kind and their slope at 0.

    - neutral: one gain serves every depth.
    - steady: the gain depends on depth.
    - unsteady: no gain serves a deep network.

    Examples:

    `gradwalk activations`

    `gradwalk activations --json`
    """
    known = [activations.activation(name) for name in activations.names()]
    slopes = {f.name: float(np.asarray(f.derivative(np.zeros(1)))[0]) for f in known}
    if as_json:
        print(json.dumps({f.name: {"kind": gradwalk.kind(f), "slope": slopes[f.name]} for f in known}))
        return
    rows = [(f.name, gradwalk.kind(f), f"{slopes[f.name]:.4g}") for f in known]
    print_table([("activation", "kind", "f'(0)"), *rows])


def widths_of(text: str) -> int | tuple[int, ...]:
    """Return the width, or the widths, that a --width option names."""
    try:
        widths = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--width must be a whole number or comma-separated whole numbers, got {text!r}") from None
    return widths[0] if len(widths) == 1 else widths


def _record(described: GainDescription) -> dict[str, Any]:
    """Return the JSON object; what is unknown is null."""
    step, estimate = described.step, described.estimate
    return {
        "activation": described.activation,
        "width": described.width,
        "depth": described.depth,
        "weights": described.weights,
        "formula": described.formula,
        "gain": described.gain,
        "weight_std": described.weight_std,
        "kind": described.kind,
        "drift": step and step.drift,
        "variance": step and step.variance,
        "standard_error": estimate and estimate.standard_error,
        "spread": estimate and estimate.spread,
        "walks": estimate and estimate.walks,
        "source": estimate and estimate.source,
    }


def _lines(described: GainDescription) -> list[Line]:
    step, estimate = described.step, described.estimate
    error = f" ± {estimate.standard_error:.6f}" if estimate and estimate.standard_error else ""
    lines = [
        ("gain g", f"{described.gain:.6f}{error}"),
        ("source of the gain", _source(described)),
        ("weights", described.weights),
        ("standard deviation of weights", _stds(described.weight_std)),
        ("kind of activation", described.kind),
    ]
    if step is not None:
        # eq. 14 is the variance of the log-norm, not of ln z
        variance = "variance of ln z" if described.formula == "exact" else "variance, as printed"
        lines += [("drift of ln z at g = 1", f"{step.drift:.6f}"), (variance, f"{step.variance:.6f}")]
    if estimate is not None:
        lines.append(("spread of the final log-norm", f"{estimate.spread:.3f}"))
    return lines


def _source(described: GainDescription) -> str:
    estimate = described.estimate
    if described.formula == "paper":
        return "formula printed in the paper"
    if estimate is None or estimate.source == "formula":
        return "exact formula"
    if estimate.source == "walks":
        return f"{estimate.walks} sampled walks"
    return "expansion in 1 / width" if estimate.source == "expansion" else "table of gains"


def _stds(std: float | tuple[float, ...]) -> str:
    if isinstance(std, float):
        return f"{std:.6f}, g / sqrt(N)"
    shown = [f"{value:.6f}" for value in (std if len(std) <= 4 else (*std[:2], std[-1]))]
    if len(std) > 4:
        shown.insert(2, "...")
    return ", ".join(shown) + " (layer 1 first)"

"""`gradwalk gain` and `gradwalk activations`."""

import json
import math
from typing import Annotated, Any

import numpy as np
import typer

import gradwalk
from gradwalk import activations
from gradwalk.checks import Formula, Weights
from gradwalk.cli.show import Line, plain_warnings, print_table, show

ACTIVATION = "A name, as `gradwalk activations` lists them."
WIDTH = "Units a layer, or all widths, input first: 784,300,100."
WEIGHTS = "gaussian or orthogonal."
JSON = "Print one JSON object and nothing else."


def gain(
    activation: Annotated[str, typer.Argument(metavar="ACTIVATION", help=ACTIVATION)],
    width: Annotated[str, typer.Option(help=WIDTH)],
    depth: Annotated[
        int | None, typer.Option(help="Layers of weights; needed unless linear, relu, leaky_relu.")
    ] = None,
    weights: Annotated[Weights, typer.Option(help=WEIGHTS)] = "gaussian",
    formula: Annotated[Formula, typer.Option(help="exact, or paper: eq. 13 and 18 as printed.")] = "exact",
    seed: Annotated[int, typer.Option(help="Of the walks that a sampled gain rests on.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help=JSON)] = False,
) -> None:
    """Print the gain that makes the walk unbiased, with what goes with it.

    Examples:

    `gradwalk gain relu --width 100`

    `gradwalk gain tanh --width 100 --depth 200`

    `gradwalk gain "leaky_relu(0.2)" --width 784,300,100,10 --json`
    """
    with plain_warnings():
        answer = _gain_answer(activation, widths_of(width), depth, weights, formula, seed)
    if as_json:
        print(json.dumps(answer))
    else:
        show(_gain_lines(answer), f"{answer['activation']}, width {width}" + (f", depth {depth}" if depth else ""))


def list_activations() -> None:
    """List the activations, with their kind and their slope at 0.

    neutral: one gain for every depth. steady: the gain depends on depth. unsteady: no gain serves a deep network.
    """
    rows = [("activation", "kind", "f'(0)")]
    for name in activations.names():
        f = activations.activation(name)
        rows.append((f.name, gradwalk.kind(f), f"{float(np.asarray(f.derivative(np.zeros(1)))[0]):.4g}"))
    print_table(rows)


def widths_of(text: str) -> int | tuple[int, ...]:
    try:
        widths = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--width: one whole number, or several with commas between, got {text!r}") from None
    return widths[0] if len(widths) == 1 else widths


def _gain_answer(
    activation: str, width: int | tuple[int, ...], depth: int | None, weights: Weights, formula: Formula, seed: int
) -> dict[str, Any]:
    f = activations.activation(activation)
    value = gradwalk.gain(f, width, depth, weights=weights, formula=formula, seed=seed)
    layers = depth if isinstance(width, int) else len(width) - 1
    answer: dict[str, Any] = {"activation": f.name, "width": width, "depth": layers, "weights": weights}
    answer |= {"formula": formula, "gain": value, "weight_std": _weight_std(value, width), "kind": gradwalk.kind(f)}
    answer |= dict.fromkeys(("drift", "variance", "standard_error", "spread", "walks"))
    if isinstance(width, int) and answer["kind"] == "neutral":
        answer |= gradwalk.step(f, width, weights=weights, formula=formula)._asdict()
    if formula == "exact" and layers is not None:
        estimate = gradwalk.solve_gain(f, width, depth, weights=weights, seed=seed)  # gain() has it in its cache
        answer |= {name: getattr(estimate, name) for name in ("standard_error", "spread", "walks")}
    return answer


def _weight_std(value: float, width: int | tuple[int, ...]) -> float | list[float]:
    if isinstance(width, int):
        return value / math.sqrt(width)
    return [value / math.sqrt(fan_in) for fan_in in width[:-1]]


def _gain_lines(answer: dict[str, Any]) -> list[Line]:
    std = answer["weight_std"]
    lines = [
        ("gain g", f"{answer['gain']:.6f}" + (f" ± {answer['standard_error']:.6f}" if answer["walks"] else "")),
        ("weights", answer["weights"]),
        ("gain found by", _source(answer)),
        ("standard deviation of weights", _stds(std if isinstance(std, list) else [std])),
        ("kind of activation", answer["kind"]),
    ]
    if answer["drift"] is not None:
        # eq. 14 is the variance of the log-norm, not of ln z
        variance = "variance of ln z" if answer["formula"] == "exact" else "variance, as printed"
        lines += [("drift of ln z at g = 1", f"{answer['drift']:.6f}"), (variance, f"{answer['variance']:.6f}")]
    if answer["spread"] is not None:
        lines.append(("spread of the final log-norm", f"{answer['spread']:.3f}"))
    return lines


def _source(answer: dict[str, Any]) -> str:
    if answer["formula"] == "paper":
        return "the paper's formula"
    return f"{answer['walks']} sampled walks" if answer["walks"] else "an exact formula"


def _stds(stds: list[float]) -> str:
    shown = [f"{std:.6f}" for std in (stds if len(stds) <= 4 else [*stds[:2], stds[-1]])]
    if len(stds) > 4:
        shown.insert(2, "...")
    return ", ".join(shown) + (" (layer 1 first)" if len(stds) > 1 else ", g / sqrt(N)")

"""The command line: gain, walk, reproduce, activations. Bad input is one line on stderr and exit code 2."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import numpy as np

import gradwalk
from gradwalk import activations, checks
from gradwalk.activations import Array

if TYPE_CHECKING or find_spec("typer") is not None:  # main() tells what to install where it is missing
    import typer

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from gradwalk.simulation import Walks

_NEEDED = ("typer", "rich", "matplotlib")
_QUANTILES = (0.05, 0.95)
_CELLS = 4_000_000  # numbers kept of a walk; past that, not every layer
_DRAWN = 60
_ACTIVATION = "A name, as `gradwalk activations` lists them."
_WIDTH = "Units a layer, or all widths, input first: 784,300,100."
_WEIGHTS = "gaussian or orthogonal."
_JSON = "Print one JSON object and nothing else."

Line = tuple[str, str]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line, and exit with 0, with 2 after bad input, or with 130 after Ctrl-C."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        _fail(f"the command line needs {' and '.join(missing)}: pip install 'gradwalk[experiments]'")
    try:
        status = app()(args=arguments, prog_name="gradwalk", standalone_mode=False)
    except (ValueError, TypeError) as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"cannot use {error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except Exception as error:
        if isinstance(error, typer.Abort):
            _fail("interrupted", 130)
        if not hasattr(error, "format_message"):  # Typer's usage errors, of whichever click it brings
            raise
        _fail(error.format_message())
    if status == 130:  # Typer's word for Ctrl-C
        _fail("interrupted", 130)
    sys.exit(status if isinstance(status, int) else 0)


def app() -> typer.Typer:
    """Return the Typer application with its commands."""
    build = typer.Typer(
        name="gradwalk", add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown"
    )
    build.callback(invoke_without_command=True)(root)
    for name, command in (("gain", gain), ("walk", walk), ("reproduce", reproduce), ("activations", list_activations)):
        build.command(name)(command)
    return build


def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    """Weights at whose scale the gradient of a very deep network neither vanishes nor explodes.

    Examples:

    `gradwalk gain relu --width 100`

    `gradwalk walk tanh --width 100 --depth 200 --out walk.png`

    `gradwalk reproduce fig1 --out figures`
    """
    if version:
        print(f"gradwalk {gradwalk.__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


def gain(
    activation: Annotated[str, typer.Argument(metavar="ACTIVATION", help=_ACTIVATION)],
    width: Annotated[str, typer.Option(help=_WIDTH)],
    depth: Annotated[
        int | None, typer.Option(help="Layers of weights; needed unless linear, relu, leaky_relu.")
    ] = None,
    weights: Annotated[str, typer.Option(help=_WEIGHTS)] = "gaussian",
    formula: Annotated[str, typer.Option(help="exact, or paper: eq. 12 and 17 as printed.")] = "exact",
    seed: Annotated[int, typer.Option(help="Of the walks that a sampled gain rests on.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help=_JSON)] = False,
) -> None:
    """Print the gain that makes the walk unbiased, with what goes with it.

    Examples:

    `gradwalk gain relu --width 100`

    `gradwalk gain tanh --width 100 --depth 200`

    `gradwalk gain "leaky_relu(0.2)" --width 784,300,100,10 --json`
    """
    with _plain_warnings():
        answer = _gain_answer(activation, _widths(width), depth, weights, formula, seed)
    if as_json:
        print(json.dumps(answer))
    else:
        _show(_gain_lines(answer), f"{answer['activation']}, width {width}" + (f", depth {depth}" if depth else ""))


def walk(
    activation: Annotated[str, typer.Argument(metavar="ACTIVATION", help=_ACTIVATION)],
    width: Annotated[str, typer.Option(help=_WIDTH)],
    depth: Annotated[int | None, typer.Option(help="Layers of weights; not needed with all widths.")] = None,
    gain: Annotated[float | None, typer.Option(help="Of all weights; left out, the unbiased one.")] = None,
    walks: Annotated[int, typer.Option(help="Networks to sample.")] = 400,
    weights: Annotated[str, typer.Option(help=_WEIGHTS)] = "gaussian",
    seed: Annotated[int, typer.Option(help="Of the samples.")] = 0,
    method: Annotated[str, typer.Option(help="exact, or dense: matrices are drawn.")] = "exact",
    out: Annotated[Path | None, typer.Option(help="Draw the walks there: .png, .pdf or .svg.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help=_JSON)] = False,
) -> None:
    """Sample walks of the gradient's log-norm through random networks.

    Examples:

    `gradwalk walk relu --width 100 --depth 500 --out walk.png`

    `gradwalk walk tanh --width 100 --depth 200 --gain 1.0 --walks 100`
    """
    if out is not None:
        _check_picture(out)
    layers = checks.widths("walk", _widths(width), depth)
    with _plain_warnings():
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


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[fig1 fig2 | all]", help="Figures; all of them.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Directory for the figures and their tables.")] = Path("gradwalk-figures"),
    seed: Annotated[int, typer.Option(help="Of the simulations.")] = 0,
    redraw: Annotated[bool, typer.Option("--redraw", help="From the CSV files in --out, without simulating.")] = False,
) -> None:
    """Compute and draw figures of the paper: a CSV, a PNG and a PDF each, and the numbers that matter.

    Examples:

    `gradwalk reproduce --out figures`

    `gradwalk reproduce fig1 --out figures --seed 7`

    `gradwalk reproduce fig1 --out figures --redraw`
    """
    from gradwalk import figures
    from gradwalk.figures import table

    chosen = [checks.one_of("reproduce", "figure", name, (*figures.NAMES, "all")) for name in names or ["all"]]
    checks.whole("reproduce", "seed", seed, least=0)
    _check_directory(out)
    for name in figures.NAMES if "all" in chosen else dict.fromkeys(chosen):
        module, data = figures.figure_module(name), out / f"{name}.csv"
        if not redraw:
            table.write(module.compute(seed), data)
        shown = table.read(data)
        pictures = [data.with_suffix(".png"), data.with_suffix(".pdf")]
        figures.save(module.draw(shown), pictures)
        _show(module.summary(shown), name)
        print("written: " + ", ".join(str(path) for path in (data, *pictures)) + "\n")


def list_activations() -> None:
    """List the activations, with their kind and their slope at 0.

    neutral: one gain for every depth. steady: the gain depends on depth. unsteady: no gain serves a deep network.
    """
    rows = [("activation", "kind", "f'(0)")]
    for name in activations.names():
        f = activations.activation(name)
        rows.append((f.name, gradwalk.kind(f), f"{float(np.asarray(f.derivative(np.zeros(1)))[0]):.4g}"))
    _print(_grid(rows, header=True))


def _source(answer: dict[str, Any]) -> str:
    if answer["formula"] == "paper":
        return "the paper's formula"
    return f"{answer['walks']} sampled walks" if answer["walks"] else "an exact formula"


def _gain_answer(
    activation: str, width: int | tuple[int, ...], depth: int | None, weights: str, formula: str, seed: int
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
        # eq. 13 is the variance of the log-norm, not of ln z
        variance = "variance of ln z" if answer["formula"] == "exact" else "variance, as printed"
        lines += [("drift of ln z at g = 1", f"{answer['drift']:.6f}"), (variance, f"{answer['variance']:.6f}")]
    if answer["spread"] is not None:
        lines.append(("spread of the final log-norm", f"{answer['spread']:.3f}"))
    return lines


def _stds(stds: list[float]) -> str:
    shown = [f"{std:.6f}" for std in (stds if len(stds) <= 4 else [*stds[:2], stds[-1]])]
    if len(stds) > 4:
        shown.insert(2, "...")
    return ", ".join(shown) + (" (layer 1 first)" if len(stds) > 1 else ", g / sqrt(N)")


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
        "dead": sampled.dead,
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
    _show(lines, f"{answer['activation']}, depth {answer['depth']}, {answer['walks']} walks")
    rows = [["layer", "mean log-norm", "5 %", "95 %"]]
    for at in answer["layers"]:
        rows.append([f"{at['layer']}", *(f"{at[name]:+.3f}" for name in ("mean", "p5", "p95"))])
    _print(_grid(rows, header=True))
    if "out" in answer:
        print(f"written: {answer['out']}")


def _predicted(activation: str, layers: tuple[int, ...], gain: float, weights: str) -> tuple[Array, Array] | None:
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


def _widths(text: str) -> int | tuple[int, ...]:
    try:
        widths = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--width: one whole number, or several with commas between, got {text!r}") from None
    return widths[0] if len(widths) == 1 else widths


def _check_picture(path: Path) -> None:
    """Say before anything is sampled that the picture cannot be written."""
    from gradwalk import figures

    figures.ending(path)
    new = not path.exists()
    with path.open("ab"):
        pass
    if new:
        path.unlink()


def _check_directory(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    probe = path / ".gradwalk"
    probe.touch()
    probe.unlink()


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print the library's warnings as one plain line each, on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", gradwalk.UnsteadyWarning)
        yield
    for warning in caught:
        print(f"gradwalk: {warning.message}", file=sys.stderr)


def _show(lines: Sequence[Line], title: str) -> None:
    print(title)
    _print(_grid(lines))


def _grid(rows: Sequence[Sequence[str]], header: bool = False) -> RichTable:
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, show_header=header, pad_edge=False, padding=(0, 3, 0, 0))
    first, *rest = rows
    for index, name in enumerate(first):
        grid.add_column(name if header else "", justify="right" if header and index else "left")
    for row in rest if header else rows:
        grid.add_row(*(Text(cell) for cell in row))  # Text: a name is no markup
    return grid


def _print(grid: RichTable) -> None:
    from rich.console import Console

    Console(highlight=False).print(grid)


def _fail(sentence: str, status: int = 2) -> NoReturn:
    print(f"gradwalk: {' '.join(sentence.split())}", file=sys.stderr)
    sys.exit(status)

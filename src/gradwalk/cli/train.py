"""`gradwalk train`: a sweep of one table whose settings are given as options."""

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradwalk.cli.completion import activation_names, data_names, names_of
from gradwalk.cli.gain import ACTIVATION
from gradwalk.cli.paths import path_option
from gradwalk.cli.show import print_table, print_written
from gradwalk.cli.sweep import DEVICE, SAVE_EVERY, THREADS, Json, Options, run_shown
from gradwalk.cli.sweep_show import plan_table, result_object
from gradwalk.cli.train_show import result_table

if TYPE_CHECKING:
    from gradwalk.sweep import Spec, SweepSummary

_OPTIMIZER = "sgd, momentum, nesterov, adam or adamw; parameters in parentheses, as in momentum(0.95)."
_WEIGHTS = "gaussian or orthogonal, scaled by the gain; torch, xavier, kaiming, plain-orthogonal or lsuv."


def _setting(text: str, default: str, metavar: str, names: Callable[[], Iterable[str]] = tuple) -> Any:
    """Return a Typer option for a setting of `Run`: its help, its default there, what its values are, and names."""
    return typer.Option(help=text, show_default=default, metavar=metavar, autocompletion=names_of(names))


def train(
    context: typer.Context,
    data: Annotated[str | None, _setting("Data set, see gradwalk data list.", "mnist", "NAME", data_names)] = None,
    examples: Annotated[str | None, _setting("Number of training examples, from the first.", "all", "INT")] = None,
    scaling: Annotated[
        str | None, _setting("How inputs are standardised: dimension, global or none.", "dimension", "NAME")
    ] = None,
    task: Annotated[str | None, _setting("classify, or reconstruct (an auto-encoder).", "classify", "NAME")] = None,
    activation: Annotated[str | None, _setting(ACTIVATION, "tanh", "NAME", activation_names)] = None,
    weights: Annotated[str | None, _setting(f"Initial weights: {_WEIGHTS}", "gaussian", "NAME")] = None,
    depth: Annotated[str | None, _setting("Number of layers of weights.", "64", "INT")] = None,
    params: Annotated[
        str | None, _setting("Parameter limit; the width is the smallest above it.", "4e6", "FLOAT")
    ] = None,
    width: Annotated[str | None, _setting("Width of all hidden layers, instead of --params.", "none", "INT")] = None,
    gain: Annotated[str | None, _setting("Gain g.", "the unbiased gain", "FLOAT")] = None,
    gain_in: Annotated[str | None, _setting("Gain of the first layer, g_1.", "1", "FLOAT")] = None,
    gain_out: Annotated[str | None, _setting("Gain of the last layer, g_D.", "g", "FLOAT")] = None,
    rate: Annotated[str | None, _setting("Learning rate of all layers.", "0.01", "FLOAT")] = None,
    rate_in: Annotated[str | None, _setting("Learning rate of the first layer.", "0.01", "FLOAT")] = None,
    rate_out: Annotated[str | None, _setting("Learning rate of the last layer.", "0.01", "FLOAT")] = None,
    deepest: Annotated[
        str | None, _setting("D_max of the schedule of rates over depth.", "the greatest depth", "INT")
    ] = None,
    bias_rate: Annotated[
        str | None, _setting("Learning rate of biases relative to weights; 0 freezes them.", "1", "FLOAT")
    ] = None,
    optimizer: Annotated[str | None, _setting(_OPTIMIZER, "sgd", "NAME")] = None,
    weight_decay: Annotated[str | None, _setting("Weight decay, per unit of learning rate.", "0", "FLOAT")] = None,
    decay: Annotated[str | None, _setting("Factor on all rates after each epoch.", "0.995", "FLOAT")] = None,
    batch: Annotated[str | None, _setting("Examples per minibatch.", "100", "INT")] = None,
    clip: Annotated[str | None, _setting("Clip gradients to this norm; none disables clipping.", "10", "FLOAT")] = None,
    epochs: Annotated[str | None, _setting("Number of passes over the training examples.", "20", "INT")] = None,
    measure_every: Annotated[
        str | None, _setting("Measure both splits after every so many epochs, and the last.", "1", "INT")
    ] = None,
    stop_at_zero: Annotated[bool, typer.Option("--stop-at-zero", help="Stop a run once it makes no mistake.")] = False,
    seed: Annotated[str | None, _setting("Seed of the initial weights.", "0", "INT")] = None,
    data_seed: Annotated[str | None, _setting("Seed of the order of the examples.", "0", "INT")] = None,
    threads: Annotated[int | None, typer.Option(help=THREADS)] = Options.threads,
    device: Annotated[str, typer.Option(help=DEVICE)] = Options.device,
    save_every: Annotated[float, typer.Option(help=SAVE_EVERY)] = Options.save_every,
    out: Annotated[Path, path_option("Folder for results, networks and checkpoints.")] = Path("gradwalk-training"),
    as_json: Json = False,
) -> None:
    """Train a very deep network, or several.

    Every setting takes one value or comma-separated values: all combinations are trained, those of one architecture
    as a stack. --out is the folder of a sweep, which `gradwalk sweep status`, `export` and `plot` read. It also
    receives the networks, metrics.csv and curve.png. The same command resumes after an interruption.

    Examples:

    `gradwalk train --data digits --depth 64 --params 1e5 --epochs 30 --out digits-64`

    `gradwalk train --data mnist --depth 100 --params 1e6 --gain 1.0,1.1,1.2 --seed 0,1 --out stack`

    `gradwalk train --data mnist --task reconstruct --depth 16 --params 5e5 --rate 1.0`
    """
    from gradwalk.data import Datasets
    from gradwalk.sweep import plan

    spec, datasets = _spec(context.params), Datasets()
    planned = plan(spec, out, device=device, threads=threads, measure=False, datasets=datasets)
    if planned.rows and not as_json:
        print_table(plan_table(planned))
        print()
    options = Options(device=device, threads=threads, save_every=save_every, save_networks=True)
    summary = run_shown(spec, out, options, out.name, _command(context.params, options), datasets)
    written = _write(summary, out)
    if as_json:
        kept = {"seconds": summary.seconds, "kept": summary.kept, "written": [str(path) for path in written]}
        print(json.dumps(result_object(summary.counts, summary.best, **kept)))
    else:
        print_table(result_table(summary.results))
        if written:
            print_written(*written)
    if summary.counts["failed"]:
        raise typer.Exit(1)


def _spec(given: dict[str, Any]) -> "Spec":
    """Return the spec of the settings among the options, a grid with the order of the options."""
    from gradwalk.sweep import Spec
    from gradwalk.sweep.spec import KEYS

    settings = {name: given[name] for name in given if name in KEYS and given[name] not in (None, False)}
    return Spec.parse({name: _values(name, value) for name, value in settings.items()}, "train")


def _values(name: str, text: str | bool) -> list[Any]:
    """Return the values of an option, which are separated by commas."""
    from gradwalk.sweep.spec import parse_value

    if isinstance(text, bool):
        return [text]
    try:
        return [parse_value(part.strip()) for part in _parts(text)]
    except ValueError:  # a list or a string of TOML that does not end, or nothing
        raise ValueError(f"train: {name} must be one value or comma-separated values, got {name}={text!r}") from None


def _parts(text: str) -> list[str]:
    """Return the parts of a text between commas, but not between those inside parentheses.

    >>> _parts("sgd,adam(0.9, 0.99),momentum")
    ['sgd', 'adam(0.9, 0.99)', 'momentum']
    """
    parts, depth = [""], 0
    for piece in re.split(r"([,()])", text):
        depth = max(depth + {"(": 1, ")": -1}.get(piece, 0), 0)
        if piece == "," and not depth:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def _command(given: dict[str, Any], options: Options) -> list[str]:
    """Return the command as it was typed."""
    from gradwalk.sweep.spec import KEYS

    words = ["gradwalk", "train"]
    for name, value in given.items():
        if name in KEYS and value not in (None, False):
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [value])]
    shown = [word for word in options.words() if word != "--save-networks"]
    return [*words, *shown, "--out", str(given["out"])]


def _write(summary: "SweepSummary", out: Path) -> list[Path]:
    """Write metrics.csv and curve.png, unless no run has finished an epoch, and return what is there."""
    from gradwalk.figures import save
    from gradwalk.figures.curves import draw_curves
    from gradwalk.sweep.export import write_table
    from gradwalk.sweep.folder import NETWORKS

    if not any(result.epochs for result in summary.results):
        return []
    write_table(summary.results, out / "metrics.csv", by_epoch=True)
    save(draw_curves(summary.results), [out / "curve.png"])
    return [out / "metrics.csv", out / "curve.png", out / NETWORKS]

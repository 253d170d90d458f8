"""`gradwalk sweep SPEC`, and `gradwalk sweep status`, `export` and `plot`."""

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gradwalk.cli.show import check_directory, fail, plain_warnings, print_table, show
from gradwalk.cli.sweep_show import best_lines, failures, plan_lines, plan_table, summary_lines, watched

SPEC = "A TOML file: the settings of the runs, each a value or a list of values."
OVERRIDES = "Settings that prevail over the spec's, as epochs=3 or gain=[1.0,1.1]."
ADDRESS = "Of a Ray cluster, host:port or auto; left out, one is started here."
FOLDER = "The folder of a sweep."
JSON = "Print one JSON object and nothing else."

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help=FOLDER)]
Json = Annotated[bool, typer.Option("--json", help=JSON)]


class _Group(TyperGroup):
    """Runs a spec where the first word is no command: `gradwalk sweep my.toml` is `gradwalk sweep run my.toml`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `run` before what is no command."""
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["run", *args]
        return super().parse_args(ctx, args)


def sweep_commands() -> typer.Typer:
    """Return the commands of `gradwalk sweep`."""
    build = typer.Typer(
        cls=_Group,
        help="Train the runs of a spec, go on where it stopped, and see what came out. "
        "`gradwalk sweep SPEC.toml` is short for `gradwalk sweep run SPEC.toml`.",
        no_args_is_help=True,
        rich_markup_mode="markdown",
    )
    for name, command in (("run", run), ("status", status), ("export", export_table), ("plot", draw)):
        build.command(name)(command)
    return build


def run(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.toml", help=SPEC)],
    overrides: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help=OVERRIDES)] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the sweep; left out, runs/ and the spec's name.")] = None,
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    address: Annotated[str | None, typer.Option(help=ADDRESS)] = None,
    threads: Annotated[int | None, typer.Option(help="Cores to use; all of them.")] = None,
    save_every: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 60.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would take, and train nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Train the runs of a spec that have not ended yet; the same command goes on after an interruption.

    Examples:

    `gradwalk sweep my.toml --out runs/mine`

    `gradwalk sweep my.toml epochs=3 gain=[1.0,1.1] --dry-run`

    `gradwalk sweep my.toml --out /shared/mine --engine ray --address auto`
    """
    from gradwalk.sweep import Spec, run_sweep

    asked, folder = Spec.load(spec, overrides or []), out or Path("runs") / spec.stem
    if dry_run:
        _show_plan(asked, folder, threads, as_json)
        return
    engine_options = {"engine": engine, "address": address, "threads": threads, "save_every": save_every}
    try:
        with plain_warnings(), watched(asked.name or spec.stem) as report:
            done = run_sweep(asked, folder, report=report, **engine_options)  # type: ignore[arg-type]
    except KeyboardInterrupt:
        defaults = {"engine": "local", "address": None, "threads": None, "save_every": 60.0}
        given = {name: value for name, value in engine_options.items() if value != defaults[name]}
        fail(_interrupted(folder, _command(spec, overrides or [], folder, given)), 130)
    if as_json:
        print(json.dumps(_answer(done.results, seconds=done.seconds, kept=done.kept)))
    else:
        show(summary_lines(done), f"{asked.name}: {folder}")
    if done.count("failed"):
        raise typer.Exit(1)


def status(folder: Folder, as_json: Json = False) -> None:
    """Say how far a sweep is, also while it goes on, and who is at it.

    Examples:

    `gradwalk sweep status runs/mine`
    """
    from gradwalk.sweep import Store
    from gradwalk.sweep.lock import said
    from gradwalk.sweep.session import best

    with Store(folder) as store:
        results, counts, holder = store.results(), store.counts(), store.holder()
    if as_json:
        print(json.dumps(_answer(results, holder=holder)))
        return
    epochs = f"{sum(len(each.epochs) for each in results):,} of {sum(each.run.epochs for each in results):,}"
    lines = [("runs", f"{len(results)}"), *((name, f"{count}") for name, count in counts.items())]
    lines += [("epochs", epochs), ("trained now by", "nobody" if holder is None else said(holder))]
    show([*lines, *best_lines(best(results)), *failures(results)], str(folder))


def export_table(
    folder: Folder,
    to: Annotated[Path, typer.Option(help="File to write, .csv or .parquet.")],
    epochs: Annotated[bool, typer.Option("--epochs", help="A row an epoch; left out, a row a run.")] = False,
) -> None:
    """Write the runs, or their epochs, as a table for other programs.

    Examples:

    `gradwalk sweep export runs/mine --to runs.csv`

    `gradwalk sweep export runs/mine --to epochs.parquet --epochs`
    """
    from gradwalk.sweep import Store, table

    table.check_ending(to)
    with Store(folder) as store:
        rows = (table.epoch_rows if epochs else table.run_rows)(store.results())
    table.export(rows, to)
    print(f"written: {to}, {len(rows):,} rows")


def draw(
    folder: Folder,
    out: Annotated[Path, typer.Option(help="Picture to write, .png, .pdf or .svg.")],
    x: Annotated[str | None, typer.Option(help="Setting along the axis; left out, one that varies.")] = None,
    colour: Annotated[str | None, typer.Option(help="Setting that has the colours; left out, another.")] = None,
    split: Annotated[str, typer.Option(help="train or test.")] = "train",
) -> None:
    """Draw the error of all runs against one of their settings.

    Examples:

    `gradwalk sweep plot runs/mine --out mine.png`

    `gradwalk sweep plot runs/mine --out mine.png --x depth --colour gain --split test`
    """
    from gradwalk import figures
    from gradwalk.sweep import Store
    from gradwalk.sweep.plot import plot

    figures.ending(out)
    with Store(folder) as store:
        drawn = plot(store.results(), x, colour, split)
    check_directory(out.parent)
    figures.save(drawn, [out])
    print(f"written: {out}")


def _show_plan(spec: Any, folder: Path, threads: int | None, as_json: bool) -> None:
    from gradwalk.sweep.plan import plan

    found = plan(spec, folder, threads=threads)
    if as_json:
        print(json.dumps(asdict(found) | {"seconds": found.seconds}))
        return
    print_table(plan_table(found))
    print()
    show(plan_lines(found), f"{spec.name}: {folder}")


def _answer(results: Any, **more: Any) -> dict[str, Any]:
    """Return what a sweep came to, for a program."""
    from gradwalk.sweep.session import best
    from gradwalk.sweep.store import STATUSES
    from gradwalk.sweep.table import run_rows

    first = best(results)
    counts = {str(status): sum(each.status == status for each in results) for status in STATUSES}
    return {"runs": len(results), **counts, **more, "best": None if first is None else run_rows([first])[0]}


def _interrupted(folder: Path, command: str) -> str:
    """Return what is saved and how to go on; with no store yet, nothing had begun."""
    from gradwalk.sweep import Store

    try:
        with Store(folder) as store:
            counts = store.counts()
    except FileNotFoundError:
        return f"interrupted before anything was trained; begin with: {command}"
    ended, begun = counts["done"] + counts["diverged"], counts["running"]
    return (
        f"interrupted; {ended} of {sum(counts.values())} runs have ended and are saved in {folder}, {begun} that had "
        f"begun have checkpoints there; go on with: {command}"
    )


def _command(spec: Path, overrides: list[str], folder: Path, options: dict[str, Any]) -> str:
    words = ["gradwalk", "sweep", str(spec), *overrides, "--out", str(folder)]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join(words)

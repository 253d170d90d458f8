"""`gradwalk sweep SPEC`, and `gradwalk sweep status`, `export` and `plot`."""

import difflib
import json
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradwalk.cli.command import Command, Group
from gradwalk.cli.paths import path_argument, path_option
from gradwalk.cli.show import (
    JSON,
    check_directory,
    fail_interrupted,
    plain_warnings,
    print_table,
    print_written,
    show,
)
from gradwalk.cli.sweep_show import (
    interruption,
    plan_lines,
    plan_table,
    result_object,
    shown_progress,
    status_lines,
    summary_lines,
)
from gradwalk.interrupts import ignore_signals

if TYPE_CHECKING:
    from gradwalk.data import Datasets
    from gradwalk.sweep import Spec, SweepSummary

SPEC = "TOML file with the settings of the runs, each a value or a list of values."
OVERRIDES = "Settings that override the spec, such as epochs=3 or gain=[1.0,1.1]."
ADDRESS = "Ray cluster, host:port or auto (default: start one on this machine)."
DEVICE = "cpu, cuda, cuda:1, ..."
THREADS = "Number of cores (default: all)."
SAVE_EVERY = "Seconds between checkpoints."

Folder = Annotated[Path, path_argument("Folder of the sweep.", "FOLDER")]
Json = Annotated[bool, typer.Option("--json", help=JSON)]


@dataclass(frozen=True)
class Options:
    """The options of `run_sweep` that the command line takes, with its defaults."""

    engine: str = "local"
    address: str | None = None
    device: str = "cpu"
    threads: int | None = None
    save_every: float = 60.0
    save_networks: bool = False

    def words(self) -> list[str]:
        """Return the options that are not at their defaults, as they are typed."""
        given = {name: value for name, value in asdict(self).items() if value != getattr(Options, name)}
        flags = {name: f"--{name.replace('_', '-')}" for name in given}
        return [
            word for name, value in given.items() for word in ([flags[name], *([] if value is True else [f"{value}"])])
        ]


class _Group(Group):
    """Runs a spec if the first word is no command: `gradwalk sweep my.toml` is `gradwalk sweep run my.toml`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert `run` before anything that is no command and not a misspelt one."""
        if args and args[0] not in self.commands and args[0] != "--help":
            close = difflib.get_close_matches(args[0], self.commands, n=1)
            if close and not Path(args[0]).exists():
                raise ValueError(f"there is no command or file {args[0]!r}; did you mean {close[0]!r}?")
            args = ["run", *args]
        return super().parse_args(ctx, args)


def sweep_commands() -> typer.Typer:
    """Return the commands of `gradwalk sweep`."""
    build = typer.Typer(
        cls=_Group,
        help="Train the runs of a spec, resume where it stopped, and look at the results. "
        "`gradwalk sweep SPEC.toml` is short for `gradwalk sweep run SPEC.toml`.",
        no_args_is_help=True,
        rich_markup_mode="markdown",
    )
    for name, command in (("run", run), ("status", show_status), ("export", export), ("plot", draw)):
        build.command(name, cls=Command)(command)
    return build


def run(
    spec: Annotated[Path, path_argument(SPEC, "SPEC.toml")],
    overrides: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help=OVERRIDES)] = None,
    out: Annotated[Path | None, path_option("Folder of the sweep (default: runs/ and the spec's name).")] = None,
    engine: Annotated[str, typer.Option(help="local, ray, or a registered engine.")] = Options.engine,
    address: Annotated[str | None, typer.Option(help=ADDRESS)] = Options.address,
    device: Annotated[str, typer.Option(help=DEVICE)] = Options.device,
    threads: Annotated[int | None, typer.Option(help=THREADS)] = Options.threads,
    save_every: Annotated[float, typer.Option(help=SAVE_EVERY)] = Options.save_every,
    save_networks: Annotated[
        bool, typer.Option("--save-networks", help="Write each finished network to networks/ in the folder.")
    ] = Options.save_networks,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what it would take, and train nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Train the runs of a spec that have not ended yet. The same command resumes after an interruption.

    Examples:

    `gradwalk sweep my.toml --out runs/mine`

    `gradwalk sweep my.toml epochs=3 gain=[1.0,1.1] --dry-run`

    `gradwalk sweep my.toml --out /shared/mine --engine ray --address auto`
    """
    from gradwalk.sweep import Spec

    loaded, folder = Spec.load(spec, overrides or []), out or Path("runs") / spec.stem
    if dry_run:
        _show_plan(loaded, folder, device, threads, as_json)
        return
    options = Options(engine, address, device, threads, save_every, save_networks)
    words = ["gradwalk", "sweep", str(spec), *(overrides or []), "--out", str(folder), *options.words()]
    summary = run_shown(loaded, folder, options, loaded.name or spec.stem, words)
    if as_json:
        print(json.dumps(result_object(summary.counts, summary.best, seconds=summary.seconds, kept=summary.kept)))
    else:
        show(summary_lines(summary), f"{loaded.name}: {folder}")
    if summary.counts["failed"]:
        raise typer.Exit(1)


def run_shown(
    spec: "Spec",
    folder: Path,
    options: Options,
    label: str,
    command: list[str],
    datasets: "Datasets | None" = None,
) -> "SweepSummary":
    """Run a sweep with its progress on stderr; an interrupt prints the command that resumes it, with exit code 130."""
    from gradwalk.sweep import run_sweep

    try:
        with plain_warnings(), shown_progress(label) as report:
            return run_sweep(spec, folder, datasets=datasets, report=report, **asdict(options))
    except KeyboardInterrupt:
        ignore_signals()  # a second one must not hide the command that resumes
        fail_interrupted(interruption(folder, shlex.join(command)))


def show_status(folder: Folder, as_json: Json = False) -> None:
    """Show a sweep's progress and the process running it.

    Examples:

    `gradwalk sweep status runs/mine`
    """
    from gradwalk.sweep import status

    now = status(folder)
    if not as_json:
        show(status_lines(now), str(folder))
        return
    process = now.writer and {"pid": now.writer.pid, "host": now.writer.host, "began": now.writer.began}
    unreadable = [run._asdict() for run in now.unreadable]
    print(json.dumps(result_object(now.counts, now.best, process=process, unreadable=unreadable)))


def export(
    folder: Folder,
    to: Annotated[Path, path_option("File to write, .csv or .parquet.")],
    epochs: Annotated[bool, typer.Option("--epochs", help="One row per measured epoch (default: per run).")] = False,
    as_json: Json = False,
) -> None:
    """Write the results as a table for other programs: settings and measurements, one row per run or epoch.

    Examples:

    `gradwalk sweep export runs/mine --to runs.csv`

    `gradwalk sweep export runs/mine --to epochs.parquet --epochs`
    """
    from gradwalk.sweep import Store
    from gradwalk.sweep.export import check_suffix, write_table

    check_suffix(to)
    with plain_warnings(), Store(folder) as store:
        rows = write_table(store.stream(), to, by_epoch=epochs)
    print_written(to, as_json=as_json, rows=rows)


def draw(
    folder: Folder,
    out: Annotated[Path, path_option("Picture to write, .png, .pdf or .svg.")],
    x: Annotated[str | None, typer.Option(help="Setting along the x-axis (default: one that varies).")] = None,
    colour: Annotated[str | None, typer.Option(help="Setting shown by colour (default: another that varies).")] = None,
    split: Annotated[str, typer.Option(help="train or test.")] = "train",
    as_json: Json = False,
) -> None:
    """Plot the error of all runs against one of their settings.

    Examples:

    `gradwalk sweep plot runs/mine --out mine.png`

    `gradwalk sweep plot runs/mine --out mine.png --x depth --colour gain --split test`
    """
    from gradwalk import figures
    from gradwalk.sweep import Store, plot

    figures.ending(out)
    with plain_warnings(), Store(folder) as store:
        figure = plot(store.results(), x, colour, split)
    check_directory(out.parent)
    figures.save(figure, [out])
    print_written(out, as_json=as_json)


def _show_plan(spec: "Spec", folder: Path, device: str, threads: int | None, as_json: bool) -> None:
    from gradwalk.sweep import plan

    planned = plan(spec, folder, device=device, threads=threads)
    if as_json:
        print(json.dumps(asdict(planned) | {"seconds": planned.seconds}))
        return
    print_table(plan_table(planned))
    print()
    show(plan_lines(planned), f"{spec.name}: {folder}")

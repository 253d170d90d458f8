"""`gradwalk reproduce`."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gradwalk import checks, figures
from gradwalk.cli.provenance import is_current, made_by_sweep, made_now
from gradwalk.cli.show import check_directory, plain_warnings, show
from gradwalk.figures import table, trained
from gradwalk.figures.table import Table
from gradwalk.files import atomic
from gradwalk.progress import progress
from gradwalk.report import write_page

if TYPE_CHECKING:
    from gradwalk.sweep import Spec as Sweep
    from gradwalk.sweep import SweepProgress, SweepSummary

_NAMES = f"[{' '.join(figures.EVERY)} | all]"
_SCALES = (
    "smoke: a minute for all; quick: ten minutes on 2 cores; laptop: half an hour; paper: the paper's own grid, for a "
    "cluster."
)
_EVERY = 60.0  # seconds between two lines on how far a sweep is


@dataclass(frozen=True)
class Order:
    """What was asked for: where to write, which spec to run (a file's, or the package's at a scale), with what seed."""

    out: Path
    scale: str
    file: Path | None
    seed: int | None
    threads: int | None

    def spec(self, name: str) -> "Sweep":
        """Return the spec of the figure."""
        from gradwalk.sweep import Spec

        source = self.text(name) if self.file is None else self.file
        return Spec.load(source, [] if self.seed is None else [f"seed={self.seed}"])

    def text(self, name: str) -> str:
        """Return the spec as it is written."""
        return trained.spec_text(name, self.scale) if self.file is None else self.file.read_text("utf-8")

    @property
    def label(self) -> str:
        """The scale, or the name of the user's own spec."""
        return self.scale if self.file is None else self.file.stem

    def folder(self, name: str) -> Path:
        """Return where the runs of the figure's sweep are kept."""
        return self.out / "sweeps" / f"{name}-{self.label}"


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar=_NAMES, help="Figures; all those of the paper.")] = None,
    scale: Annotated[str, typer.Option(help=f"Of what is trained. {_SCALES}")] = "smoke",
    out: Annotated[Path, typer.Option(help="Directory for the page, figures, tables and sweeps.")] = Path("report"),
    seed: Annotated[int | None, typer.Option(help="Of the simulations and initial weights; 0, or the spec's.")] = None,
    spec: Annotated[Path | None, typer.Option(help="A spec of your own for one trained figure.")] = None,
    print_spec: Annotated[bool, typer.Option("--print-spec", help="Print the specs to be run, and leave.")] = False,
    redraw: Annotated[bool, typer.Option("--redraw", help="From the CSV files in --out, without running.")] = False,
    threads: Annotated[int | None, typer.Option(help="Cores to train on; all.")] = None,
) -> None:
    """Compute and draw figures of the paper: a CSV, a PNG and a PDF each, and a page, index.html, with all of them.

    The page has a verdict on each of the paper's claims, from the numbers of all figures that lie in --out.
    Figures 1 and 2 are simulated, 3 and 4 are trained, by sweeps in --out. Started again, a sweep goes on where it was,
    and one that ran elsewhere, on a cluster say, is drawn from its folder, --out/sweeps/fig3-paper and so on.
    A figure that the paper lacks, initialisers, sets the random walk beside other initialisers at each depth.

    Examples:

    `gradwalk reproduce fig1 fig2 --out figures`

    `gradwalk reproduce fig1 --out figures --redraw`

    `gradwalk reproduce fig3 --scale laptop --print-spec`
    """
    everything = not names or "all" in names
    chosen = [checks.one_of("reproduce", "figure", name, (*figures.EVERY, "all")) for name in names or ["all"]]
    wanted = [name for name in dict.fromkeys([*(figures.NAMES if everything else ()), *chosen]) if name != "all"]
    checks.one_of("reproduce", "scale", scale, trained.SCALES)
    if seed is not None:
        checks.whole("reproduce", "seed", seed, least=0)
    if spec is not None and (len(wanted) != 1 or wanted[0] in figures.SIMULATED):
        trained_names = ", ".join(figures.TRAINED + figures.OURS)
        raise ValueError(f"reproduce: --spec is for one of {trained_names}, got {' '.join(wanted)}")
    order = Order(out, scale, spec, seed, threads)
    if print_spec:
        _print_specs(wanted, order)
        return
    check_directory(out)
    done = 0
    with plain_warnings():
        for place, name in enumerate(wanted, 1):
            if len(wanted) > 1:
                _say(f"{name}, {place} of {len(wanted)}")
            done += _reproduce(name, order, redraw=redraw, optional=everything)
    if done:
        print(write_page(out))


def _print_specs(names: Sequence[str], order: Order) -> None:
    texts = [order.text(name) for name in names if name not in figures.SIMULATED]
    if not texts:
        raise ValueError(f"reproduce: {' and '.join(names)} have no spec: they are simulated")
    print("\n".join(texts), end="")


def _reproduce(name: str, order: Order, *, redraw: bool, optional: bool) -> bool:
    """Compute and draw a figure; an optional one that lacks data or torch is passed over with a line, and False."""
    data = order.out / f"{name}.csv"
    try:
        prepared = None if redraw or name in figures.SIMULATED else _prepared(name, order)
        if redraw and optional and not data.exists():
            raise FileNotFoundError(f"there is no {data}")
    except (FileNotFoundError, ModuleNotFoundError) as error:
        if not optional:
            raise
        _say(f"{name} is left out: {error}")
        return False
    if not redraw and not _kept(name, data, order.seed or 0):
        computed = _simulated(name, order.seed or 0) if prepared is None else _trained(name, *prepared, order)
        with atomic(data) as partial:
            table.write(computed, partial)
    module, shown = figures.figure_module(name), table.read(data)
    pictures = [data.with_suffix(".png"), data.with_suffix(".pdf")]
    figures.save(module.draw(shown), pictures)
    show(module.summary(shown), name)
    print("written: " + ", ".join(str(path) for path in (data, *pictures)) + "\n")
    return True


def _kept(name: str, data: Path, seed: int) -> bool:
    """Whether the table of Figure 1 or 2 is there already, with that seed and of this version; it is told then."""
    kept = name in figures.SIMULATED and data.exists() and is_current(table.read(data), seed)
    if kept:
        _say(f"{name} is drawn from {data}, which has this seed and version")
    return kept


def _simulated(name: str, seed: int) -> Table:
    started = time.monotonic()
    computed = figures.simulated_figure(name).compute(seed)
    return replace(computed, made=made_now(time.monotonic() - started))


def _prepared(name: str, order: Order) -> "tuple[Sweep, str | None]":
    """Return the spec with data that can be had, and a sentence where they are other data than it asks for."""
    spec, note = trained.possible(order.spec(name))
    if note is not None:
        _say(f"{name}: {note}")
    return spec, note


def _trained(name: str, spec: "Sweep", note: str | None, order: Order) -> Table:
    from gradwalk.sweep import Store

    found = _swept(name, spec, order)
    failed = next((each for each in found.results if each.status == "failed"), None)
    if failed is not None:
        count = found.counts["failed"]
        if count == len(found.results):
            raise ValueError(f"reproduce: all runs of {name} failed ({failed.error})")
        _say(f"{name}: {count} runs failed and are not drawn ({failed.error})")
    computed = figures.trained_figure(name).tabulate(found.results, trained.datasets(spec.runs()))
    with Store(order.folder(name)) as store:
        return replace(computed, made=made_by_sweep(found.results, store, order.label, note))


def _swept(name: str, spec: "Sweep", order: Order) -> "SweepSummary":
    """Run the sweep; how far it is shows as a bar on a terminal, and elsewhere as a line a minute."""
    from gradwalk.sweep import run_sweep

    count = len(spec.runs())
    shown, told = 0, time.monotonic()
    with progress(f"{name}: {count} runs, per cent done", 100) as job:

        def report(standing: "SweepProgress") -> None:
            nonlocal shown, told
            if standing.left is None:
                return
            share = round(100 * standing.seconds / (standing.seconds + standing.left))
            job.advance(max(0, share - shown))
            shown = max(shown, share)
            if time.monotonic() - told > _EVERY and not sys.stderr.isatty():
                told = time.monotonic()
                _say(f"{name}: {shown} % of {count} runs, about {standing.left:.0f} s left")

        return run_sweep(spec, order.folder(name), threads=order.threads, report=report)


def _say(sentence: str) -> None:
    """Tell how it goes, without disturbing what is printed."""
    print(f"gradwalk: {sentence}", file=sys.stderr, flush=True)

"""`gradwalk reproduce`."""

from pathlib import Path
from typing import Annotated

import typer

from gradwalk.cli.paths import path_option
from gradwalk.cli.show import check_directory, plain_warnings, show, warn
from gradwalk.figures import FIGURES, Figure
from gradwalk.reproduction import ReproducedFigure, Watcher, spec_texts
from gradwalk.reproduction import reproduce as run

_NAMES = f"[{' '.join(FIGURES.names)} | all]"
_SCALES = (
    "smoke: a minute for all figures; quick: ten minutes on 2 cores; laptop: half an hour; paper: the paper's own "
    "grid, for a cluster."
)


class Printer(Watcher):
    """Prints the summary of each figure, and everything else on stderr."""

    def began(self, figure: Figure, place: int, count: int) -> None:
        """Print which of several figures is being computed."""
        if count > 1:
            self.noted(f"{figure.name}, {place} of {count}")

    def noted(self, message: str) -> None:
        """Print a message on stderr."""
        warn(message)

    def ended(self, result: ReproducedFigure) -> None:
        """Print the summary and the files."""
        show(result.summary, result.figure.name)
        print(f"written: {', '.join(map(str, result.files))}\n")


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar=_NAMES, help="Figures (default: all of the paper's).")
    ] = None,
    scale: Annotated[str, typer.Option(help=f"Scale of the trained figures. {_SCALES}")] = "smoke",
    out: Annotated[Path, path_option("Directory for the page, figures, tables and sweeps.")] = Path("report"),
    seed: Annotated[
        int | None, typer.Option(help="Seed of simulations and initial weights (default: 0, or the spec's).")
    ] = None,
    spec: Annotated[Path | None, path_option("Your own spec, for one trained figure.")] = None,
    print_spec: Annotated[bool, typer.Option("--print-spec", help="Print the specs and exit.")] = False,
    redraw: Annotated[bool, typer.Option("--redraw", help="Draw from the CSV files in --out, run nothing.")] = False,
    engine: Annotated[str, typer.Option(help="Engine that trains: local, ray, or one that is registered.")] = "local",
    device: Annotated[str, typer.Option(help="Device to train on, such as cpu or cuda.")] = "cpu",
    threads: Annotated[int | None, typer.Option(help="Number of cores to train on (default: all).")] = None,
) -> None:
    """Compute and draw figures: CSV, PNG and PDF files, and a page, index.html, that shows all figures in --out.

    The page has a verdict on each of the paper's claims. Figures 1 and 2 are simulated; 3 and 4 are trained by sweeps
    in --out/sweeps. An interrupted sweep resumes with the same command; one that ran elsewhere, such as on a cluster,
    is drawn once its folder is there, as --out/sweeps/fig3-paper. The figure "initialisers" is not in the paper: it
    compares random walk initialization with other initialisers at each depth.

    Examples:

    `gradwalk reproduce fig1 fig2 --out figures`

    `gradwalk reproduce fig1 --out figures --redraw`

    `gradwalk reproduce fig3 --scale laptop --print-spec`
    """
    if print_spec:
        print("\n".join(spec_texts(names or "all", scale=scale, spec=spec)), end="")
        return
    check_directory(out)
    with plain_warnings():
        result = run(
            names or "all",
            scale=scale,
            out=out,
            spec=spec,
            seed=seed,
            redraw=redraw,
            engine=engine,
            device=device,
            threads=threads,
            watcher=Printer(),
        )
    if result.page is not None:
        print(result.page)

"""`gradwalk reproduce`."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from gradwalk.cli.completion import figure_names, names_of, scale_names
from gradwalk.cli.paths import path_option
from gradwalk.cli.show import JSON, check_directory, fail_interrupted, plain_warnings, print_written, show, warn
from gradwalk.figures import FIGURES, Figure
from gradwalk.reproduction import ReproducedFigure, Reproduction, Watcher, spec_texts
from gradwalk.reproduction import reproduce as run

_SCALES = (
    "smoke: a minute for all figures; quick: some minutes on 2 cores; laptop: half an hour; evening: 3 hours; "
    "paper: the paper's own grid, for a cluster."
)
_DATA = "Where a data set lies that cannot be downloaded: --data timit=/corpora/TIMIT."
_FORCE = "Replace figures of a larger scale, or of another spec, that are in --out."


@dataclass(frozen=True)
class Printer(Watcher):
    """Prints the summary of each figure, unless it is to be quiet, and everything else on stderr."""

    quiet: bool = False

    def began(self, figure: Figure, place: int, count: int) -> None:
        """Print which of several figures is being computed."""
        if count > 1:
            self.noted(f"{figure.name}, {place} of {count}")

    def noted(self, message: str) -> None:
        """Print a message on stderr."""
        warn(message)

    def ended(self, result: ReproducedFigure) -> None:
        """Print the summary and the files."""
        if not self.quiet:
            show(result.summary, result.figure.name)
            print_written(*result.files)
            print()


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FIGURE]...",
            help=f"{', '.join(FIGURES.names)}, or all (default: all of the paper's).",
            autocompletion=names_of(figure_names),
        ),
    ] = None,
    scale: Annotated[
        str, typer.Option(help=f"Scale of the trained figures. {_SCALES}", autocompletion=names_of(scale_names))
    ] = "smoke",
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
    data: Annotated[list[str] | None, typer.Option(help=_DATA, metavar="NAME=FOLDER")] = None,
    force: Annotated[bool, typer.Option("--force", help=_FORCE)] = False,
    as_json: Annotated[bool, typer.Option("--json", help=JSON)] = False,
) -> None:
    """Compute and draw figures: CSV, PNG and PDF files, and a page, index.html, that shows all figures in --out.

    Trained figures are of scale smoke unless --scale is given. A figure of a larger scale in --out is never replaced by
    a smaller one without --force.

    The page has a verdict on each of the paper's claims. Figures 1 and 2 are simulated; 3 and 4 are trained by sweeps
    in --out/sweeps. An interrupted sweep resumes with the same command; one that ran elsewhere, such as on a cluster,
    is drawn once its folder is there, as --out/sweeps/fig3-paper. The figure "initialisers" is not in the paper: it
    compares random walk initialization with other initialisers at each depth.

    Examples:

    `gradwalk reproduce fig1 fig2 --out figures`

    `gradwalk reproduce fig1 --out figures --redraw`

    `gradwalk reproduce fig3 --scale laptop --print-spec`

    `gradwalk reproduce fig4d --scale quick --data timit=/corpora/TIMIT`
    """
    if print_spec:
        print("\n".join(spec_texts(names or "all", scale=scale, spec=spec)), end="")
        return
    check_directory(out)
    try:
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
                data=dict(_named_folder(each) for each in data or []),
                force=force,
                watcher=Printer(quiet=as_json),
            )
    except KeyboardInterrupt:
        fail_interrupted(f"interrupted; what has been trained is saved in {out}, and the same command resumes")
    if as_json:
        print(json.dumps(_record(result)))
    elif result.page is not None:
        print(result.page)


def _named_folder(text: str) -> tuple[str, Path]:
    """Return the name and the folder of a --data option."""
    name, equals, folder = text.partition("=")
    if not (name and equals and folder):
        raise ValueError(f"--data must be NAME=FOLDER, such as timit=/corpora/TIMIT, got {text!r}")
    return name, Path(folder)


def _record(result: Reproduction) -> dict[str, Any]:
    """Return the JSON object: the files and numbers of each figure, why others are missing, and the verdicts."""
    return {
        "page": result.page and str(result.page),
        "figures": {
            name: {"files": [str(path) for path in each.files], "summary": dict(each.summary)}
            for name, each in result.figures.items()
        },
        "left_out": result.left_out,
        "findings": {name: asdict(finding) for name, finding in result.findings.items()},
    }

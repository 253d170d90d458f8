"""`gradwalk reproduce`."""

from pathlib import Path
from typing import Annotated

import typer

from gradwalk import checks, figures
from gradwalk.cli.show import check_directory, show
from gradwalk.figures import table


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
    chosen = [checks.one_of("reproduce", "figure", name, (*figures.NAMES, "all")) for name in names or ["all"]]
    checks.whole("reproduce", "seed", seed, least=0)
    check_directory(out)
    for name in figures.NAMES if "all" in chosen else dict.fromkeys(chosen):
        module, data = figures.figure_module(name), out / f"{name}.csv"
        if not redraw:
            table.write(module.compute(seed), data)
        shown = table.read(data)
        pictures = [data.with_suffix(".png"), data.with_suffix(".pdf")]
        figures.save(module.draw(shown), pictures)
        show(module.summary(shown), name)
        print("written: " + ", ".join(str(path) for path in (data, *pictures)) + "\n")

"""`gradwalk explorer`."""

from pathlib import Path
from typing import Annotated

import typer

from gradwalk.cli.paths import path_option
from gradwalk.cli.show import JSON, print_written


def explorer(
    out: Annotated[Path, path_option("Page to write.")] = Path("explorer.html"),
    as_json: Annotated[bool, typer.Option("--json", help=JSON)] = False,
) -> None:
    """Write a page that samples walks in the browser: one file, which needs no network.

    Examples:

    `gradwalk explorer --out explorer.html`
    """
    from gradwalk.report.explorer import write_explorer

    print_written(write_explorer(out), as_json=as_json)

"""The tables of figures in a folder."""

from __future__ import annotations

from pathlib import Path

from gradwalk import figures
from gradwalk.figures import table as table_files


def read_tables(folder: Path) -> dict[str, figures.Table]:
    """Return the tables of figures that are in the folder as CSV files, by the names of the figures."""
    paths = {name: folder / f"{name}.csv" for name in figures.FIGURES.names}
    return {name: table_files.read(path) for name, path in paths.items() if path.exists()}

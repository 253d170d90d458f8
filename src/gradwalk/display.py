"""What every result has in common: a data frame, a table in a notebook, and a plot on axes of one's own."""

from __future__ import annotations

import html
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

INK, BLUE, RED, GREEN = "#1B1F24", "#0067A3", "#C85000", "#008A64"  # at least 4:1 on white
SIZE = (7.0, 4.2)  # of a new figure, in inches
_ROWS = 20  # of a table in a notebook
_PLAIN = (str, int, float, bool, type(None))


class Shown:
    """A result that is shown as a table of its `columns`: by default one row with the fields of a dataclass."""

    def columns(self) -> dict[str, list[Any]]:
        """Return the numbers as named columns."""
        assert is_dataclass(self), "other results define their columns"
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: [value] for name, value in values.items() if isinstance(value, _PLAIN)}

    def to_pandas(self) -> DataFrame:
        """Return the columns as a pandas data frame."""
        try:
            from pandas import DataFrame
        except ModuleNotFoundError as error:
            message = "to_pandas: pandas is needed: pip install 'gradwalk[experiments]'"
            raise ModuleNotFoundError(message, name="pandas") from error
        return DataFrame(self.columns())

    def _repr_html_(self) -> str:
        return html_table(self.columns(), repr(self))


def html_table(columns: Mapping[str, Sequence[Any]], caption: str) -> str:
    """Return a table of HTML with its caption; of a long one the first and last rows.

    >>> html_table({"layer": ["a", "b"], "gain": [1.0, 1.25]}, "two")
    '<table><caption>two</caption><tr><th>layer</th><th>gain</th></tr><tr><td>a</td><td>1</td></tr>...'
    """
    rows = list(zip(*columns.values(), strict=True))
    if len(rows) > _ROWS:
        rows = [*rows[: _ROWS // 2], ("…",) * len(columns), *rows[-_ROWS // 2 :]]
    lines = [html_row("th", columns), *(html_row("td", map(_cell, row)) for row in rows)]
    return f"<table><caption>{html.escape(caption)}</caption>{''.join(lines)}</table>"


def html_row(tag: str, cells: Iterable[str]) -> str:
    """Return a row of a table of HTML; tag: "th" or "td"."""
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"


def axes_of(ax: Axes | None) -> Axes:
    """Return the axes, new ones for None: in a notebook those of pyplot, which shows them, else on a figure alone."""
    if ax is not None:
        return ax
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        message = "plot: matplotlib is needed: pip install 'gradwalk[experiments]'"
        raise ModuleNotFoundError(message, name="matplotlib") from error
    if _in_notebook():
        from matplotlib import pyplot

        figure = pyplot.figure(figsize=SIZE, layout="constrained")
    else:
        figure = Figure(figsize=SIZE, layout="constrained")
    panel = figure.subplots()
    panel.spines[["top", "right"]].set_visible(False)
    return panel


def plot_expected_walk(ax: Axes | None, drift: float, spread: float, title: str) -> Axes:
    """Draw the band in which 95 % of the walks are expected that end at drift ± spread, and return the axes."""
    panel, way = axes_of(ax), np.linspace(0, 1, 101)
    mean, reach = drift * way, 1.96 * spread * np.sqrt(way)
    panel.fill_between(way, mean - reach, mean + reach, color=BLUE, alpha=0.2, linewidth=0, label="95 % of networks")
    panel.plot(way, mean, color=BLUE, label="mean")
    panel.axhline(0.0, color=INK, linewidth=0.6)
    panel.set(xlabel="share of the way back from the output", ylabel=r"$\ln\,|\delta_d|/|\delta_D|$", title=title)
    panel.legend(frameon=False)
    return panel


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and shell.get_ipython() is not None


def _cell(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float | np.floating) else str(value)

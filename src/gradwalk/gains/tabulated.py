"""The unbiased gains of built-in activations that the expansion serves badly or slowly: from tables, by interpolation.

`benchmarks/tables.py` makes them. A table is a grid of widths and depths, evenly spaced in their logarithms.
"""

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradwalk.activations import Activation, Array, is_built_in
from gradwalk.checks import Weights

_NODES = 4  # of the cubics between which


class Tabulated(NamedTuple):
    """A gain from a table.

    Attributes:
        log_gain: ln g.
        error: its standard error, including that of the interpolation.
        spread: of the final log-norm.
        quick: whether the expansion gives the gain more exactly, in milliseconds.
    """

    log_gain: float
    error: float
    spread: float
    quick: bool


@dataclass(frozen=True, eq=False)
class Table:
    """Nodes by width and depth, NaN where no gain is found; see `Tabulated`."""

    widths: Array
    depths: Array
    log_gain: Array
    error: Array
    spread: Array
    quick: NDArray[np.bool_]

    def at(self, width: int, depth: int) -> Tabulated | None:
        """Return the gain between the nodes, or None where it is outside them or too few are near."""
        across, down = _near(self.widths, width), _near(self.depths, depth)
        if across is None or down is None:
            return None
        weights = np.outer(across.weights, down.weights)
        part = np.ix_(across.places, down.places)
        log_gain = float((weights * self.log_gain[part]).sum())
        if math.isnan(log_gain):
            return None
        error = math.sqrt(((weights * self.error[part]) ** 2).sum())
        spread = math.exp((weights * np.log(self.spread[part])).sum())
        return Tabulated(log_gain, error, spread, bool(self.quick[np.ix_(across.around, down.around)].all()))


class _Near(NamedTuple):
    """The places of the nodes next to a number, the weights of an interpolation on them, and the two around it."""

    places: NDArray[np.intp]
    weights: Array
    around: NDArray[np.intp]


def _near(grid: Array, number: int) -> _Near | None:
    if not grid[0] <= number <= grid[-1]:
        return None
    right = min(int(np.searchsorted(grid, number, "right")), len(grid) - 1)
    places = np.arange(_NODES) + min(max(right - _NODES // 2, 0), len(grid) - _NODES)
    at, nodes = math.log(number), np.log(grid[places])
    weights = [math.prod((at - other) / (node - other) for other in nodes if other != node) for node in nodes]
    return _Near(places, np.array(weights), np.array([right - 1, right]))


def tabulated_gain(activation: Activation, width: int, depth: int, weights: Weights) -> Tabulated | None:
    """Return the gain from the table of an activation, None where there is none."""
    found = _table(activation.name, weights) if is_built_in(activation) else None
    return None if found is None else found.at(width, depth)


@lru_cache(maxsize=64)
def _table(name: str, weights: Weights) -> Table | None:
    file = files("gradwalk.gains") / "tables" / f"{name}-{weights}.json"
    if not file.is_file():
        return None
    written = json.loads(file.read_text(encoding="utf-8"))
    columns = {field: np.array(written[field], np.float64) for field in ("log_gain", "error", "spread")}
    quick = np.array([[bool(each) for each in row] for row in written["quick"]])
    return Table(np.array(written["widths"]), np.array(written["depths"]), **columns, quick=quick)

"""The unbiased gains of built-in activations where the expansion serves badly or slowly: from tables, by interpolation.

`benchmarks/tables.py` makes them: gains of sampled walks on a grid of widths and depths.
"""

import json
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradwalk.activations import Activation, Array, is_built_in
from gradwalk.checks import Weights

_TWINS = {"celu": "elu", "log_sigmoid": "softplus"}  # of equal gains: the same function, and -f(-a)
_NODES = (6, 4, 2)  # of interpolations, in each direction
_SHARE = 1 / 3  # of the difference to the next coarser one, about its error: see the tables' z in results/gains.md
_BENT = ((0.1, 0.25), (0.01, 0.28))  # by width and by depth, the bends of ln g and ln spread where the gain may jump


class Tabulated(NamedTuple):
    """A gain from a table.

    Attributes:
        log_gain: ln g.
        error: its standard error, including that of the interpolation.
        spread: of the final log-norm.
        quick: whether the expansion gives the gain in milliseconds, with less error than the interpolation.
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
        """Return the gain between the nodes, or None where it is outside them, or near a NaN or a jump."""
        if not (self.widths[0] <= width <= self.widths[-1] and self.depths[0] <= depth <= self.depths[-1]):
            return None
        around = np.ix_(_places(self.widths, width, 2), _places(self.depths, depth, 2))
        every = [self._weights(width, depth, nodes) for nodes in _NODES]
        means, spreads = ([each.mean(values) for each in every] for values in (self.log_gain, np.log(self.spread)))
        if not (self._smooth[around].all() and math.isfinite(means[-2])):
            return None
        differences = [_SHARE * (one - other) for one, other in pairwise(means)]
        errors = [math.hypot(each.error(self.error), own) for each, own in zip(every[:-1], differences, strict=True)]
        best = int(np.nanargmin(errors))  # noise weighs more in finer ones
        exact = self.quick[around].all() and abs(differences[best]) > every[best].error(self.error)
        return Tabulated(means[best], errors[best], math.exp(spreads[best]), bool(exact))

    @cached_property
    def _smooth(self) -> NDArray[np.bool_]:
        """Whether the gain and the spread bend little at a node: where it jumps, nodes on either side do not."""
        fields = (self.log_gain, np.log(self.spread))
        by_width = [_bends(values, _by_width(self.widths)) for values in fields]
        by_depth = [_bends(values.T, _by_depth(self.depths)).T for values in fields]
        bends = np.array([by_width, by_depth])
        return np.asarray((bends < np.array(_BENT)[:, :, None, None]).all(axis=(0, 1)))

    def _weights(self, width: int, depth: int, nodes: int) -> "_Weights":
        across, down = _places(self.widths, width, nodes), _places(self.depths, depth, nodes)
        one = _lagrange(_by_width(self.widths[across]), _by_width(width))
        other = _lagrange(_by_depth(self.depths[down]), _by_depth(depth))
        return _Weights(np.ix_(across, down), np.outer(one, other))


class _Weights(NamedTuple):
    """An interpolation: the places of its nodes, and the weights on them."""

    places: tuple[NDArray[np.intp], ...]
    weights: Array

    def mean(self, values: Array) -> float:
        """Return the weighted sum of values at the nodes."""
        return float((self.weights * values[self.places]).sum())

    def error(self, errors: Array) -> float:
        """Return the error of that from independent ones at the nodes."""
        return math.sqrt(((self.weights * errors[self.places]) ** 2).sum())


def _bends(values: Array, at: Array) -> Array:
    """Return how far values are from the straight lines between their neighbours, 0 at the ends of the first axis."""
    share = ((at[1:-1] - at[:-2]) / (at[2:] - at[:-2]))[:, None]
    inner = values[1:-1] - (1 - share) * values[:-2] - share * values[2:]
    return np.pad(np.abs(inner), ((1, 1), (0, 0)))


def _places(grid: Array, number: int, nodes: int) -> NDArray[np.intp]:
    """Return the places of the nodes next to a number."""
    right = min(int(np.searchsorted(grid, number, "right")), len(grid) - 1)
    return np.arange(nodes) + min(max(right - nodes // 2, 0), len(grid) - nodes)


def _lagrange(nodes: Array, at: float) -> Array:
    """Return the weights on the values at the nodes of the polynomial through them."""
    return np.array([math.prod((at - other) / (node - other) for other in nodes if other != node) for node in nodes])


def _by_width(width: Any) -> Any:
    """Return what gains are smooth in."""
    return np.asarray(width) ** -0.5


def _by_depth(depth: Any) -> Any:
    return np.log(np.asarray(depth) + 3)


@lru_cache(maxsize=1024)
def tabulated_gain(activation: Activation, width: int, depth: int, weights: Weights) -> Tabulated | None:
    """Return the gain from the table of an activation, None where there is none."""
    name = _TWINS.get(activation.name, activation.name)
    found = _table(name, weights) if is_built_in(activation) else None
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

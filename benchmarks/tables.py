"""Makes the tables of gains that gradwalk comes with, src/gradwalk/gains/tables: one per activation and law of weights.

Where the expansion serves, a node of the grid holds its gain, otherwise that of walks sampled in a few times the number
of `solve_gain`. It resumes: a table that is there is left as it is. One of an activation that the expansion serves
badly takes 7 to 10 minutes on one core. With `--expanded`, the tables that are there are written again, with their
sampled nodes as they are: for a change of the expansion.
"""

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from setting import setting

from gradwalk import activations
from gradwalk.blocks import dense
from gradwalk.checks import Weights
from gradwalk.gains import expansion, solve
from gradwalk.theory import layer

TABLES = Path(__file__).parents[1] / "src/gradwalk/gains/tables"
ACTIVATIONS = (
    *("softplus", "gelu", "silu", "mish", "hard_swish", "elu", "selu", "tanh", "relu6"),
    *("hard_tanh", "sigmoid", "hard_sigmoid", "erf", "softsign", "sin"),
)
WIDTHS = (10, 18, 32, 58, 105, 190, 341, 615, 1110, 2000)
DEPTHS = (1, 2, 3, 6, 10, 19, 34, 60, 108, 194, 349, 626, 1125, 2000)
_QUICK = 0.025  # seconds of processor time, up to which the expansion serves while gradwalk runs:
_TIMES = 2  # the least of so many measurements
_UNITS = 4e7  # drawn per mean log-norm, four times as many as `solve_gain` does,
_WALKS = (100, 40_000)  # with so many walks


class Node(NamedTuple):
    """A node of a table, see `tabulated.Table`."""

    log_gain: float
    error: float
    spread: float
    quick: bool


def expanded(name: str, width: int, depth: int, weights: Weights) -> Node | None:
    """Return a node from the expansion, or None where that does not serve."""
    seconds = []
    for _ in range(_TIMES):
        for cached in (layer.layer_row, expansion.expanded_gain):
            cached.cache_clear()
        begun = time.process_time()
        found = expansion.expanded_gain(dense(activations.activation(name)), width, depth, weights)
        seconds.append(time.process_time() - begun)
    if found is None or not solve.serves(found, weights, solve.default_walks((width,) * (depth + 1))):
        return None
    return Node(found.log_gain, found.log_error, found.spread, min(seconds) < _QUICK)


def sampled(name: str, width: int, depth: int, weights: Weights, seed: int, units: float) -> Node | None:
    """Return a node from sampled walks, or None where no gain is found."""
    count = int(min(max(units / (width * (depth + 1)), _WALKS[0]), _WALKS[1]))
    try:
        found = solve.solve_gain(name, width, depth, weights=weights, walks=count, seed=seed)
    except ValueError as error:
        print(f"{weights} {name} {width} x {depth}: {error}", flush=True)
        return None
    return Node(math.log(found.value), found.standard_error / found.value, found.spread, False)


def table(name: str, weights: Weights, units: float, old: dict[str, Any] | None) -> dict[str, object]:
    """Return a table as it is written: the nodes by width and depth, null where there is none."""
    nodes: list[list[Node | None]] = [[None] * len(DEPTHS) for _ in WIDTHS]
    for seed, (i, j) in enumerate(np.ndindex(len(WIDTHS), len(DEPTHS)), 1):
        node = expanded(name, WIDTHS[i], DEPTHS[j], weights)
        if node is None:
            node = _kept(old, i, j) if old else sampled(name, WIDTHS[i], DEPTHS[j], weights, seed, units)
        nodes[i][j] = node
    digits = {"log_gain": 7, "error": 2, "spread": 5, "quick": 1}
    columns = {
        field: [[each and float(f"{getattr(each, field):.{digits[field]}g}") for each in row] for row in nodes]
        for field in Node._fields
    }
    return {"widths": WIDTHS, "depths": DEPTHS, **columns}


def _kept(old: dict[str, Any], i: int, j: int) -> Node | None:
    values = [old[field][i][j] for field in Node._fields]
    return None if None in values else Node(*values)


def write(name: str, weights: Weights, commit: str, units: float, old: dict[str, Any] | None = None) -> None:
    """Make a table and write it, one row of nodes per line."""
    facts = setting()
    made = {"commit": commit, "units": units, **{key: facts[key] for key in ("python", "numpy", "scipy", "processor")}}
    if old is not None:
        made |= {
            "units": old["made"].get("units", _UNITS),
            "sampled": old["made"].get("sampled", old["made"]["commit"]),
        }
    fields = {"activation": name, "weights": weights, "made": made, **table(name, weights, units, old)}
    text = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in fields.items())
    (TABLES / f"{name}-{weights}.json").write_text("{\n" + text.replace("], [", "],\n[") + "\n}\n", encoding="utf-8")


def main() -> None:
    """Make the tables that are missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", help="the commit that makes them")
    parser.add_argument("--weights", choices=("gaussian", "orthogonal"), default="gaussian")
    parser.add_argument("--activations", nargs="*", default=ACTIVATIONS)
    parser.add_argument("--units", type=float, default=_UNITS, help="drawn per mean log-norm")
    parser.add_argument("--expanded", action="store_true", help="make the expanded nodes of existing tables again")
    options = parser.parse_args()
    for name in options.activations:
        file = TABLES / f"{name}-{options.weights}.json"
        if file.exists() == options.expanded:
            old = json.loads(file.read_text(encoding="utf-8")) if options.expanded else None
            write(name, options.weights, options.commit, options.units, old)


if __name__ == "__main__":
    main()

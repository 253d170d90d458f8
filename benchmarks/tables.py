"""Makes the tables of gains that gradwalk comes with, src/gradwalk/gains/tables: one per activation and law of weights.

Where the expansion serves, a node of the grid holds its gain, otherwise that of walks sampled in a few times the number
of `solve_gain`. It resumes: a table that is there is left as it is. Two hours on one core for the 34 tables.
"""

import argparse
import json
import math
import time
from pathlib import Path
from typing import NamedTuple

from setting import setting

from gradwalk import activations
from gradwalk.blocks import dense
from gradwalk.checks import Weights
from gradwalk.gains import expansion, solve
from gradwalk.theory import layer

TABLES = Path(__file__).parents[1] / "src/gradwalk/gains/tables"
ACTIVATIONS = (
    *("softplus", "gelu", "silu", "mish", "hard_swish", "elu", "selu", "tanh", "relu6", "log_sigmoid", "celu"),
    *("hard_tanh", "sigmoid", "hard_sigmoid", "erf", "softsign", "sin"),
)
WIDTHS = (10, 18, 32, 58, 105, 190, 341, 615, 1110, 2000)
DEPTHS = (1, 2, 3, 6, 10, 19, 34, 60, 108, 194, 349, 626, 1125, 2000)
_QUICK = 0.025  # seconds of processor time, up to which the expansion serves while gradwalk runs:
_TIMES = 2  # the least of so many measurements
_UNITS = 4e7  # drawn per mean log-norm,
_WALKS = (100, 40_000)  # with so many walks


class Node(NamedTuple):
    """A node of a table, see `tabulated.Table`."""

    log_gain: float
    error: float
    spread: float
    quick: bool


def node(name: str, width: int, depth: int, weights: Weights, seed: int) -> Node | None:
    """Return a node, or None where no gain is found."""
    network, layers = dense(activations.activation(name)), (width,) * (depth + 1)
    seconds = []
    for _ in range(_TIMES):
        for cached in (layer.layer_row, expansion.expanded_gain):
            cached.cache_clear()
        begun = time.process_time()
        expanded = expansion.expanded_gain(network, width, depth, weights)
        seconds.append(time.process_time() - begun)
    quick = min(seconds) < _QUICK
    if expanded is not None and solve.serves(expanded, weights, solve.default_walks(layers)):
        return Node(expanded.log_gain, expanded.error / expanded.slope, expanded.spread, quick)
    count = int(min(max(_UNITS / sum(layers), _WALKS[0]), _WALKS[1]))
    try:
        found = solve.solve_gain(network, layers, weights=weights, walks=count, seed=seed)
    except ValueError as error:
        print(f"{weights} {name} {width} x {depth}: {error}", flush=True)
        return None
    return Node(math.log(found.value), found.standard_error / found.value, found.spread, False)


def table(name: str, weights: Weights) -> dict[str, object]:
    """Return a table as it is written: the nodes by width and depth, null where there is none."""
    nodes = []
    for i, width in enumerate(WIDTHS):
        seeds = range(1 + i * len(DEPTHS), 1 + (i + 1) * len(DEPTHS))
        nodes.append([node(name, width, depth, weights, seed) for depth, seed in zip(DEPTHS, seeds, strict=True)])
    digits = {"log_gain": 7, "error": 2, "spread": 5, "quick": 1}
    columns = {
        field: [[each and float(f"{getattr(each, field):.{digits[field]}g}") for each in row] for row in nodes]
        for field in Node._fields
    }
    return {"widths": WIDTHS, "depths": DEPTHS, **columns}


def write(name: str, weights: Weights, commit: str) -> None:
    """Make a table and write it, one row of nodes per line."""
    facts = setting()
    made = {key: facts[key] for key in ("python", "numpy", "scipy", "processor")}
    fields = {"activation": name, "weights": weights, "made": {"commit": commit, **made}, **table(name, weights)}
    text = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in fields.items())
    (TABLES / f"{name}-{weights}.json").write_text("{\n" + text.replace("], [", "],\n[") + "\n}\n", encoding="utf-8")


def main() -> None:
    """Make the tables that are missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", help="the commit that makes them")
    parser.add_argument("--weights", choices=("gaussian", "orthogonal"), default="gaussian")
    parser.add_argument("--activations", nargs="*", default=ACTIVATIONS)
    options = parser.parse_args()
    for name in options.activations:
        if not (TABLES / f"{name}-{options.weights}.json").exists():
            write(name, options.weights, options.commit)


if __name__ == "__main__":
    main()

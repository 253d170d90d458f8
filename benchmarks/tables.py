"""Makes the tables of gains that gradwalk comes with, src/gradwalk/gains/tables: one per activation and law of weights.

Where the expansion serves, a node of the grid holds its gain, otherwise that of walks sampled in a few times the number
of `solve_gain`. It resumes: a table that is there is left as it is. Two hours on one core for the 34 tables.
"""

import argparse
import json
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from setting import setting

from gradwalk import activations
from gradwalk.blocks import dense
from gradwalk.checks import Weights
from gradwalk.gains import expansion, sampled, solve
from gradwalk.simulation import simulate
from gradwalk.theory import layer

TABLES = Path(__file__).parents[1] / "src/gradwalk/gains/tables"
ACTIVATIONS = (
    *("softplus", "gelu", "silu", "mish", "hard_swish", "elu", "selu", "tanh", "relu6", "log_sigmoid", "celu"),
    *("hard_tanh", "sigmoid", "hard_sigmoid", "erf", "softsign", "sin"),
)
WIDTHS = (10, 18, 32, 58, 105, 190, 341, 615, 1110, 2000)
DEPTHS = (1, 2, 3, 6, 10, 19, 34, 60, 108, 194, 349, 626, 1125, 2000)
_QUICK = 0.025  # seconds of processor time, up to which the expansion serves while gradwalk runs
_UNITS = 4e7  # drawn per mean log-norm,
_WALKS = (100, 40_000)  # with so many walks
_ROUGH = 20  # the part of the walks that a rough root takes
_START, _STEP = 0.5, 0.02  # where to look for ln g first, and how far from there
_APART = 6.0  # errors between two means whose difference is a slope
_TRIALS = 12  # means of one kind
_SEEDS = 3  # where no gain is found with the first


class Node(NamedTuple):
    """A node of a table, see `tabulated.Table`."""

    log_gain: float
    error: float
    spread: float
    quick: bool


def node(name: str, width: int, depth: int, weights: Weights, seed: int, start: float) -> Node | None:
    """Return a node, or None where no gain is found; start: about ln g."""
    for cached in (layer.layer_row, expansion.expanded_gain):
        cached.cache_clear()
    layers = (width,) * (depth + 1)
    begun = time.process_time()
    expanded = expansion.expanded_gain(dense(activations.activation(name)), width, depth, weights)
    quick = time.process_time() - begun < _QUICK
    if expanded is not None and solve.serves(expanded, weights, solve.default_walks(layers)):
        return Node(expanded.log_gain, expanded.error / expanded.slope, expanded.spread, quick)
    for trial in range(_SEEDS):
        try:
            return _sampled(name, layers, weights, seed + 1000 * trial, start)
        except ValueError as error:
            print(f"{weights} {name} {width} x {depth}: {error}", flush=True)
    return None


class _Mean(NamedTuple):
    """The mean final log-norm at a gain, its error and its spread."""

    log_gain: float
    value: float
    error: float
    spread: float


def _sampled(name: str, layers: tuple[int, ...], weights: Weights, seed: int, start: float) -> Node:
    """Return the root of the mean: where few walks have it first, then more."""
    count = int(min(max(_UNITS / sum(layers), _WALKS[0]), _WALKS[1]))

    def mean(walks: int, log_gain: float) -> _Mean:
        gain, depth = math.exp(log_gain), len(layers) - 1
        found = simulate(name, layers, gain=gain, walks=walks, rng=seed, weights=weights, every=depth)
        return _Mean(log_gain, *sampled.controlled_mean(found), found.spread)

    at, step = start, _STEP
    for walks in (max(count // _ROUGH, 20), count):
        node = _root(partial(mean, walks), at, step)
        at, step = node.log_gain, 2 * node.error
    return node


def _root(mean: Callable[[float], _Mean], start: float, step: float) -> Node:
    """Return the root of the mean by the method of false position.

    In deep networks of gelu and the like, the mean jumps from one regime to another over a short distance, where single
    walks differ most. So the error is that of a mean next to the root, and the slope is that between the nearest means
    on either side of it that noise does not blur.
    """
    one = mean(start)
    known, low, high = [one], one, one
    for _ in range(_TRIALS):
        one = mean(one.log_gain - math.copysign(step, one.value))
        known.append(one)
        low, high = (min(known, key=lambda each: sign * each.value) for sign in (1, -1))
        if low.value < 0 < high.value and _slope(low, high) > 0:
            break
        step *= 2
    else:
        raise ValueError(f"no change of sign near {start:.4f}")
    slope = _slope(low, high)
    for _ in range(_TRIALS):
        one = mean(low.log_gain - low.value * (high.log_gain - low.log_gain) / (high.value - low.value))
        slope = max(slope, _slope(low, one), _slope(one, high))
        if abs(one.value) < one.error:
            return Node(one.log_gain - one.value / slope, one.error / slope, one.spread, False)
        low, high = (one, high) if one.value < 0 else (low, one)
    raise ValueError(f"no root near {start:.4f}")


def _slope(low: _Mean, high: _Mean) -> float:
    """Return the slope between two means, 0 where noise may decide it."""
    apart = high.value - low.value > _APART * math.hypot(low.error, high.error)
    return (high.value - low.value) / (high.log_gain - low.log_gain) if apart else 0.0


def table(name: str, weights: Weights) -> dict[str, object]:
    """Return a table as it is written: the nodes by width and depth, null where there is none."""
    nodes: list[list[Node | None]] = []
    for i, width in enumerate(WIDTHS):
        nodes.append([])
        for j, depth in enumerate(DEPTHS):
            before = [each for each in (*nodes[-1][::-1], *(row[j] for row in nodes[-2::-1])) if each is not None]
            start = before[0].log_gain if before else _START
            nodes[-1].append(node(name, width, depth, weights, 1 + i * len(DEPTHS) + j, start))
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

"""Gains as `solve_gain` returns them against those of sampled walks, on a grid of 200 cases, and how long they take.

The sampled gains are a reference that takes hours: they are kept in results/gains.json, made at commit b9b4446, when
every gain was sampled, with about twice the walks of then; those of gelu, silu and gelu*100 at b19488e, since their
standard errors had been too small. `--missing N` samples N cases that are not there yet, and `--again NAMES` those of
some activations anew.
"""

import argparse
import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest import mock

import numpy as np

from gradwalk.checks import Weights
from gradwalk.gains import GainEstimate, expansion, solve_gain, tabulated
from gradwalk.theory import layer

RESULTS = Path(__file__).parents[1] / "results"
ACTIVATIONS = ("tanh", "elu", "selu", "softplus", "gelu", "silu", "erf", "sigmoid", "gelu*100", "softsign")
SHAPES = (
    *((10, 5), (10, 20), (10, 100), (16, 50), (20, 200), (30, 30), (30, 1000), (50, 10), (50, 200), (64, 500)),
    *((100, 20), (100, 200), (128, 1000), (300, 100), (500, 50), (500, 500), (1000, 200), (2000, 20), (200, 2000)),
)
ORTHOGONAL = [
    (name, *shape) for name in ("tanh", "elu", "selu", "erf", "softsign") for shape in ((20, 50), (50, 100), (100, 50))
]


@dataclass(frozen=True)
class Case:
    """A network, and its gain by sampled walks; `error` is the sentence where there is none."""

    activation: str
    width: int
    depth: int
    weights: Weights = "gaussian"
    value: float = math.nan
    standard_error: float = math.nan
    spread: float = math.nan
    walks: int = 0
    error: str = ""

    @property
    def key(self) -> tuple[str, int, int, Weights]:
        """What identifies the network."""
        return self.activation, self.width, self.depth, self.weights


@dataclass(frozen=True)
class Compared:
    """A case with the gain of today, None if that is sampled too, and the seconds that it took."""

    case: Case
    now: GainEstimate | None
    seconds: float

    def z(self, of_both: bool) -> float:
        """Return the difference in standard errors, of the reference or of both."""
        assert self.now is not None
        error = math.hypot(self.case.standard_error, self.now.standard_error * of_both)
        return (self.now.value - self.case.value) / error


def wanted() -> list[Case]:
    """Return the grid."""
    chains = [Case(name, width, depth) for width, depth in SHAPES for name in ACTIVATIONS]
    return chains + [Case(*network, weights="orthogonal") for network in ORTHOGONAL]


def sample(case: Case) -> Case:
    """Return the case with its gain by sampled walks."""
    walks = max(150, min(6000, int(2e7 / (case.width * (case.depth + 1)))))
    try:
        found = solve_gain(case.activation, case.width, case.depth, weights=case.weights, walks=walks, seed=1)
    except ValueError as error:
        return Case(*case.key, error=str(error))
    return Case(*case.key, found.value, found.standard_error, found.spread, walks)


def compare(case: Case) -> Compared:
    """Return the case with the gain of today, computed anew."""
    for cached in (layer.layer_row, expansion.expanded_gain, tabulated.tabulated_gain, tabulated._table):
        cached.cache_clear()
    start = time.process_time()
    with mock.patch("gradwalk.gains.solve.sampled_gain", return_value=None):
        now = solve_gain(case.activation, case.width, case.depth, weights=case.weights)
    return Compared(case, now, time.process_time() - start)


def page(compared: list[Compared], refused: int) -> str:
    """Return the table by activation."""
    lines = [
        "# Gains against sampled walks",
        "",
        f"`python benchmarks/gains.py`: {len(compared)} networks of 10 to 2000 units and 5 to 2000 layers whose gain",
        f"was sampled with many walks ({refused} more have no unbiased gain that sampling finds); the reference is",
        "`gains.json`. Expanded, table: those whose gain needs no sampling, which the other columns are about.",
        "z: the difference in standard errors of the reference; z of both: in those of the difference, how often it is",
        "within 2, and the largest. Milliseconds: processor time of a first call, median and largest. Those of gelu,",
        "silu and gelu*100 were sampled at b19488e, by the solver that encloses the root; the others at b9b4446.",
        "All networks lie between the nodes of the tables, so that their z there is also one of the interpolation: of",
        "`_SHARE`, the share of the difference to a coarser one that is taken for its error.",
        "",
        "| activation | weights | cases | expanded | table | rms of z | rms of z of both | within 2 | largest | ms |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups = dict.fromkeys((each.case.activation, each.case.weights) for each in compared)
    for name, weights in groups:
        group = [each for each in compared if (each.case.activation, each.case.weights) == (name, weights)]
        lines.append(f"| {name} | {weights} | {_cells(group)} |")
    return "\n".join([*lines, f"| all | | {_cells(compared)} |", ""])


def _cells(group: list[Compared]) -> str:
    fast = [each for each in group if each.now is not None]
    sources = [
        sum(each.now is not None and each.now.source == name for each in group) for name in ("expansion", "table")
    ]
    counts = " | ".join(map(str, (len(group), *sources)))
    if not fast:
        return f"{counts} | | | | | "
    z, both = (np.array([each.z(of_both) for each in fast]) for of_both in (False, True))
    ms = 1e3 * np.array([each.seconds for each in fast])
    roots = f"{np.sqrt(np.mean(z**2)):.2f} | {np.sqrt(np.mean(both**2)):.2f}"
    within = f"{np.mean(np.abs(both) < 2):.2f} | {np.abs(both).max():.1f}"
    return f"{counts} | {roots} | {within} | {np.median(ms):.0f}, {ms.max():.0f}"


def main() -> None:
    """Sample what is missing, compare, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--missing", type=int, default=0, help="how many missing cases to sample")
    parser.add_argument("--again", nargs="*", default=[], help="activations to sample anew")
    options = parser.parse_args()
    store = RESULTS / "gains.json"
    known = {case.key: case for case in (Case(**row) for row in json.loads(store.read_text(encoding="utf-8")))}
    missing = [case for case in wanted() if case.key not in known][: options.missing]
    for case in [*missing, *(case for case in known.values() if case.activation in options.again)]:
        known[case.key] = sample(case)
        store.write_text(json.dumps([asdict(case) for case in known.values()], indent=0), encoding="utf-8")
    compared = [compare(case) for case in known.values() if not case.error]
    (RESULTS / "gains.md").write_text(
        page(compared, sum(bool(case.error) for case in known.values())), encoding="utf-8"
    )


if __name__ == "__main__":
    main()

"""What all benchmarks share: the machine and versions, medians with their range, tables, targets, and `main`."""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = ("gradwalk", "numpy", "scipy", "torch", "jax", "lsuv", "anyinit")


def setting() -> dict[str, str | int | None]:
    """Return the versions of the packages that are timed, the processor and the number of cores."""
    facts: dict[str, str | int | None] = {"python": platform.python_version(), "cores": os.cpu_count()}
    facts["processor"] = _processor()
    for package in _PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            continue
    return facts


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if sys.platform == "linux" else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def shape_name(shape: tuple[int, int]) -> str:
    """Return the name of a shape, depth and width, as a part of a benchmark.

    >>> shape_name((512, 88))
    '512x88'
    """
    return f"{shape[0]}x{shape[1]}"


def seconds(call: Callable[[], object]) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@dataclass(frozen=True)
class Spread:
    """The median, the lowest and the highest of some rounds, and the number of rounds."""

    median: float
    low: float
    high: float
    rounds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Return the spread of these values."""
        return cls(statistics.median(values), min(values), max(values), len(values))

    def __str__(self) -> str:
        return f"{number(self.median)} ({number(self.low)} to {number(self.high)})"


def number(value: float) -> str:
    """Return three significant digits, without an exponent where possible.

    >>> number(1234.5), number(0.01234), number(12.34)
    ('1,234', '0.0123', '12.3')
    """
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-3 or value == 0 else f"{value:.1e}"


@dataclass
class Table:
    """A table to print: rows of text below a header."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """Add a row and print it at once, since the next one may take a while."""
        if not self.rows:
            print(f"\n{self.title}\n" + " | ".join(self.head))
        self.rows.append(tuple(str(cell) for cell in cells))
        print(" | ".join(self.rows[-1]), flush=True)


@dataclass(frozen=True)
class Target:
    """A requirement that a benchmark checks, what it measured, and whether the requirement holds."""

    claim: str
    found: str
    holds: bool


@dataclass
class Answer:
    """The results of a benchmark: tables to print, targets, and all numbers."""

    tables: list[Table] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    numbers: list[dict[str, Any]] = field(default_factory=list)

    def aim(self, claim: str, found: str, holds: bool) -> None:
        """Record a target and print it."""
        self.targets.append(Target(claim, found, bool(holds)))
        print(f"{'holds' if holds else 'DOES NOT HOLD'}: {claim}: {found}", flush=True)


def main(about: str | None, measure: Callable[..., Answer], parts: Sequence[str] = ()) -> None:
    """Run a benchmark from the command line: print its results, and optionally write them as JSON.

    parts: names of parts that can be run by themselves; `measure` then receives those to run as `parts`.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="the fewest rounds, to check that it runs")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    if parts:
        parser.add_argument("--parts", choices=parts, nargs="+", default=parts, help="default: all")
    options = parser.parse_args()
    print(", ".join(f"{key} {value}" for key, value in setting().items()))
    answer = asdict(measure(options.quick, **({"parts": options.parts} if parts else {})))
    if options.json:
        options.json.write_text(json.dumps({"setting": setting(), **answer}, indent=1))

"""What all benchmarks share: the setting they were run in, medians with their spread, tables, targets, and `main`."""

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

_TOLD = ("gradwalk", "numpy", "scipy", "torch", "jax", "lsuv", "anyinit")


def setting() -> dict[str, str | int | None]:
    """Return the versions of what is timed, the processor and the number of cores."""
    found: dict[str, str | int | None] = {"python": platform.python_version(), "cores": os.cpu_count()}
    found["processor"] = _processor()
    for package in _TOLD:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if sys.platform == "linux" else []
    names = [each.partition(":")[2].strip() for each in lines if each.startswith("model name")]
    return names[0] if names else platform.machine()


def seconds(call: Callable[[], object]) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


@dataclass(frozen=True)
class Spread:
    """The median of some rounds, the least and the greatest of them, and how many there were."""

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
    """Return three digits, and no exponent where it can be done without.

    >>> number(1234.5), number(0.01234), number(12.34)
    ('1,234', '0.0123', '12.3')
    """
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-3 or value == 0 else f"{value:.1e}"


@dataclass
class Table:
    """A table for people: rows of text under a head."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """Add a row, and print it, since the next one may take a while."""
        if not self.rows:
            print(f"\n{self.title}\n" + " | ".join(self.head))
        self.rows.append(tuple(str(each) for each in cells))
        print(" | ".join(self.rows[-1]), flush=True)


@dataclass(frozen=True)
class Target:
    """Something that a benchmark must show, and whether it did."""

    claim: str
    found: str
    holds: bool


@dataclass
class Answer:
    """What a benchmark found: tables for people, targets, and all its numbers."""

    tables: list[Table] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    numbers: list[dict[str, Any]] = field(default_factory=list)

    def aim(self, claim: str, found: str, holds: bool) -> None:
        """Note a target, and print it."""
        self.targets.append(Target(claim, found, bool(holds)))
        print(f"{'holds' if holds else 'DOES NOT HOLD'}: {claim}: {found}", flush=True)


def main(about: str | None, measure: Callable[[bool], Answer]) -> None:
    """Run a benchmark from the command line: print what it finds, and write it as JSON where asked."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="the fewest rounds: to see that it runs")
    parser.add_argument("--json", type=Path, help="also write the answer there")
    options = parser.parse_args()
    print(", ".join(f"{key} {value}" for key, value in setting().items()))
    answer = asdict(measure(options.quick))
    if options.json:
        options.json.write_text(json.dumps({"setting": setting(), **answer}, indent=1))

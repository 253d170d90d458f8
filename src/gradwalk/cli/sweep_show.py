"""How `gradwalk sweep` shows what goes on: a bar on a terminal, a line a minute in a pipe, tables at the end."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gradwalk.cli.show import Line
from gradwalk.words import duration, quantity

if TYPE_CHECKING:
    from gradwalk.sweep import Result, Standing, SweepSummary
    from gradwalk.sweep.plan import Plan

_SELDOM = 60.0  # seconds between two lines in a pipe


@contextmanager
def watched(label: str) -> Iterator[Callable[[Standing], None]]:
    """Give what `run_sweep` reports to, on stderr."""
    if not sys.stderr.isatty():
        yield _Lines(label)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[said]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None, said="")
        yield lambda now: bar.update(task, total=now.total, completed=now.ended, said=standing_line(now))


class _Lines:
    """A line at the start, and one a minute at most."""

    def __init__(self, label: str) -> None:
        self._label, self._said = label, -math.inf

    def __call__(self, now: Standing) -> None:
        if time.monotonic() - self._said > _SELDOM:
            self._said = time.monotonic()
            print(f"{self._label}: {standing_line(now)}", file=sys.stderr, flush=True)


def standing_line(now: Standing) -> str:
    """Return how far a sweep is: runs of total, diverged, failed, network-steps a second, time left.

    >>> from gradwalk.sweep import Standing
    >>> now = Standing(48, done=20, diverged=2, failed=0, kept=6, steps=9000, seconds=60, speed=150, left=71)
    >>> standing_line(now)
    '22 of 48 runs (6 from before), 2 diverged, 150 network-steps/s, 1 min 11 s left'
    """
    parts = [f"{now.ended} of {now.total} runs" + (f" ({now.kept} from before)" if now.kept else "")]
    parts += [f"{count} {name}" for name, count in (("diverged", now.diverged), ("failed", now.failed)) if count]
    if now.speed:
        parts.append(f"{now.speed:,.0f} network-steps/s")
    if now.left:
        parts.append(f"{duration(now.left)} left")
    return ", ".join(parts)


def summary_lines(done: SweepSummary) -> list[Line]:
    """Return how a sweep ended: counts, time, the best run, and why runs failed."""
    kept = f", {done.kept} of them before" if done.kept else ""
    lines = [
        ("runs", f"{len(done.results)}"),
        ("done", f"{done.count('done')}"),
        ("diverged", f"{done.count('diverged')}"),
        ("failed", f"{done.count('failed')}"),
        ("time", duration(done.seconds)),
    ]
    lines[1] = (lines[1][0], lines[1][1] + kept)
    return [*lines, *best_lines(done.best), *failures(done.results)]


def best_lines(best: Result | None) -> list[Line]:
    """Return the best run by what sets it apart: error, depth, gain and rates."""
    if best is None:
        return []
    run = best.run
    gain = "unbiased" if run.gain is None else f"{run.gain:g}"
    settings = f"{run.activation}, depth {run.depth}, gain {gain}, rates {run.rate_in:g} to {run.rate_out:g}"
    return [
        ("best training error", f"{best.train_error:.4g} (test {best.test_error:.4g})"),
        ("of the run", f"{settings}, seed {run.seed}"),
    ]


def failures(results: Sequence[Result], most: int = 3) -> list[Line]:
    """Return why runs failed, each reason once, the first few of them."""
    reasons = dict.fromkeys(each.error or "" for each in results if each.status == "failed")
    return [("failed because", reason) for reason in list(reasons)[:most]]


def plan_table(found: Plan) -> list[tuple[str, ...]]:
    """Return what is to be done as a table, a row an architecture; data and task are named where they differ."""
    several = len({(row.data, row.task) for row in found.rows}) > 1
    rows = [
        (
            f"{row.data} {row.task} " * several + f"{row.activation} D={row.depth} N={row.width}",
            f"{row.parameters:,}",
            f"{row.runs}",
            f"{row.stacks}",
            quantity(row.memory, "B"),
            quantity(row.flops, "FLOP"),
            "" if row.seconds is None else duration(row.seconds),
        )
        for row in found.rows
    ]
    return [("network", "parameters", "runs", "stacks", "memory", "operations", "time"), *rows]


def plan_lines(found: Plan) -> list[Line]:
    """Return the sums."""
    rows = found.rows
    seconds = found.seconds
    return [
        ("runs", f"{found.total}, {found.kept} of them have ended"),
        ("stacks", f"{sum(row.stacks for row in rows)}"),
        ("most memory at a time", quantity(max((row.memory for row in rows), default=0), "B")),
        ("operations", quantity(sum(row.flops for row in rows), "FLOP")),
        (f"time on {found.threads} cores here", "" if seconds is None else f"about {duration(seconds)}"),
    ]

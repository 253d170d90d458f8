"""What `gradwalk sweep` and `gradwalk train` show: progress while they run, tables at the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradwalk.cli.show import Line
from gradwalk.progress import progress
from gradwalk.words import duration, quantity

if TYPE_CHECKING:
    from gradwalk.sweep import Plan, Result, SweepProgress, SweepStatus, SweepSummary, Unreadable

_MOST_ERRORS = 3  # that are shown


@contextmanager
def shown_progress(label: str) -> Iterator[Callable[[SweepProgress], None]]:
    """Yield a `report` for `run_sweep` that shows progress on stderr, as `gradwalk.progress` does."""
    with progress(label, lines=True) as job:
        yield lambda now: job.update(completed=now.ended, total=now.total, text=progress_line(now))


def progress_line(now: SweepProgress) -> str:
    """Return the progress of a sweep in one line.

    >>> from gradwalk.sweep import SweepProgress
    >>> now = SweepProgress(48, done=20, diverged=2, failed=0, kept=6, steps=9000, seconds=60, speed=150, left=71)
    >>> progress_line(now)
    '22 of 48 runs (6 before), 2 diverged, 150 network-steps/s, 1 min 11 s left'
    """
    parts = [f"{now.ended} of {now.total} runs" + (f" ({now.kept} before)" if now.kept else "")]
    parts += [f"{count} {name}" for name, count in (("diverged", now.diverged), ("failed", now.failed)) if count]
    if now.speed:
        parts.append(f"{now.speed:,.0f} network-steps/s")
    if now.left:
        parts.append(f"{duration(now.left)} left")
    return ", ".join(parts)


def interruption(folder: Path, command: str) -> str:
    """Return what an interrupted sweep has saved, and the command that resumes it."""
    from gradwalk.sweep import Store

    try:
        with Store(folder) as store:
            counts = store.counts()
    except (OSError, ValueError):
        return f"interrupted before training began; start again with: {command}"
    ended, begun = counts["done"] + counts["diverged"], counts["interrupted"]
    failed = f"{counts['failed']} failed, " if counts["failed"] else ""
    return (
        f"interrupted; {ended} of {sum(counts.values())} runs have ended and are saved in {folder}, "
        f"{begun} under way have checkpoints there, {failed}{counts['waiting']} are waiting; resume with: {command}"
    )


def summary_lines(summary: SweepSummary) -> list[Line]:
    """Return how a sweep ended: counts, time, the best run, and why runs failed."""
    from gradwalk.sweep.status import distinct_errors

    kept = f", {summary.kept} of them before" if summary.kept else ""
    return [
        ("runs", f"{len(summary.results)}{kept}"),
        *((name, f"{summary.counts[name]}") for name in ("done", "diverged", "failed")),
        ("time", duration(summary.seconds)),
        *best_lines(summary.best),
        *_error_lines(distinct_errors(summary.results)),
    ]


def status_lines(status: SweepStatus) -> list[Line]:
    """Return the state of a sweep: counts, the process that trains, the best run, and why runs failed."""
    from gradwalk.sweep.lock import in_words

    writer = status.writer
    return [
        ("runs", f"{status.runs}"),
        *((name, f"{count}") for name, count in status.counts.items()),
        ("epochs", f"{status.epochs_done:,} of {status.epochs_total:,}"),
        ("process", "not running" if writer is None else in_words(writer.host, writer.pid, writer.began)),
        *best_lines(status.best),
        *_error_lines(status.errors),
        *unreadable_lines(status.unreadable),
    ]


def unreadable_lines(unreadable: Sequence[Unreadable]) -> list[Line]:
    """Return the number of runs that cannot be read, and why, if there are any."""
    if not unreadable:
        return []
    reasons = list(dict.fromkeys(run.reason for run in unreadable))
    return [("cannot be read", f"{len(unreadable)}"), *(("because", reason) for reason in reasons[:_MOST_ERRORS])]


def best_lines(best: Result | None) -> list[Line]:
    """Return the best run: its errors and its main settings."""
    if best is None:
        return []
    run = best.run
    gain = "unbiased" if run.gain is None else f"{run.gain:g}"
    settings = f"{run.activation}, depth {run.depth}, gain {gain}, rates {run.rate_in:g} to {run.rate_out:g}"
    return [
        ("best training error", f"{best.train_error:.4g} (test {best.test_error:.4g})"),
        ("best run", f"{settings}, seed {run.seed}"),
    ]


def plan_table(plan: Plan) -> list[tuple[str, ...]]:
    """Return a plan as a table with one row per architecture; columns without information are left out."""
    several = len({(row.data, row.task) for row in plan.rows}) > 1
    timed = plan.seconds is not None
    rows = [
        (
            f"{row.data} {row.task} " * several + f"{row.activation} D={row.depth} N={row.width}",
            f"{row.parameters:,}",
            f"{row.runs}",
            f"{row.stacks}",
            quantity(row.memory, "B"),
            quantity(row.flops, "FLOP"),
            *([duration(row.seconds)] if row.seconds is not None else []),
        )
        for row in plan.rows
    ]
    return [("network", "parameters", "runs", "stacks", "memory", "operations", *(["time"] if timed else [])), *rows]


def plan_lines(plan: Plan) -> list[Line]:
    """Return the totals of a plan."""
    rows = plan.rows
    return [
        ("runs", f"{plan.total}, {plan.kept} of which have ended"),
        ("stacks", f"{sum(row.stacks for row in rows)}"),
        ("peak memory", quantity(max((row.memory for row in rows), default=0), "B")),
        ("operations", quantity(sum(row.flops for row in rows), "FLOP")),
        (f"time with {plan.threads} threads", "" if plan.seconds is None else f"about {duration(plan.seconds)}"),
    ]


def result_object(counts: Mapping[Any, int], best: Result | None, **more: Any) -> dict[str, Any]:
    """Return the counts and the best run of a sweep as a JSON object."""
    from gradwalk.sweep.frame import runs_frame

    row = None if best is None else json.loads(runs_frame([best]).to_json(orient="records", date_format="iso"))[0]
    return {"runs": sum(counts.values()), **dict(counts), **more, "best": row}


def _error_lines(errors: Sequence[str]) -> list[Line]:
    return [("failed because", error) for error in errors[:_MOST_ERRORS]]

"""The results of a sweep as CSV or Parquet files, which are written a part at a time to save memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd

from gradwalk.files import atomic
from gradwalk.progress import Progress, progress
from gradwalk.sweep.frame import (
    EPOCH_COLUMNS,
    RUN_COLUMNS,
    Column,
    epochs_frame,
    measured_columns,
    runs_frame,
    settings_frame,
)
from gradwalk.sweep.store import Result

SUFFIXES = (".csv", ".parquet")
_PART = 20_000  # rows that are written at a time, at most
_RUNS_AT_A_TIME = 2000

Parts = Iterable[Sequence[Result]]


@dataclass(frozen=True)
class _Table:
    """A kind of table: its columns, the rows that a run has in it, and the rows of some runs as a frame and as text."""

    columns: tuple[str, ...]
    rows: Callable[[Result], int]
    frame: Callable[[Sequence[Result]], pd.DataFrame]
    text: Callable[[Sequence[Result]], str]


def write_table(results: Iterable[Result], path: Path, *, by_epoch: bool = False) -> int:
    """Write what `runs_frame` or `epochs_frame` returns, by the suffix of the path, and return the number of rows.

    Missing values are empty cells or nulls. The results may be a stream, which is not held in memory.
    """
    check_suffix(path)
    table = _EPOCHS if by_epoch else _RUNS
    with progress(f"rows of {path.name}") as job:
        parts = _parts((result for result in results if table.rows(result)), table, job)
        first = next(parts, None)
        if first is None:
            raise ValueError(f"sweep: there are no rows to write to {path.name} yet")
        with atomic(path) as partial:
            write = _write_csv if path.suffix.lower() == ".csv" else _write_parquet
            write(table, chain([first], parts), partial)
    return int(job.completed)


def check_suffix(path: Path) -> None:
    """Raise an error unless a table can be written to a path like this."""
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"sweep: a table is written as {' or '.join(SUFFIXES)}, got {path.name!r}")
    if path.suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
        raise ModuleNotFoundError("Parquet needs pyarrow: pip install 'gradwalk[parquet]'", name="pyarrow")


def _parts(results: Iterable[Result], table: _Table, job: Progress) -> Iterator[list[Result]]:
    """Yield the results in parts that are written at a time, and report their rows."""
    part: list[Result] = []
    rows = 0
    for result in results:
        part.append(result)
        rows += table.rows(result)
        if rows >= _PART or len(part) >= _RUNS_AT_A_TIME:
            job.update(job.completed + rows, text=f"{job.completed + rows:,}")
            yield part
            part, rows = [], 0
    if part:
        job.advance(rows)
        yield part


def _write_csv(table: _Table, parts: Parts, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(",".join(table.columns) + "\n")
        for part in parts:
            file.write(table.text(part))


def _write_parquet(table: _Table, parts: Parts, path: Path) -> None:
    import pyarrow as arrow  # type: ignore[import-untyped]
    from pyarrow import parquet

    writer = None
    for part in parts:
        block = arrow.Table.from_pandas(table.frame(part), writer and writer.schema, preserve_index=False)
        writer = writer or parquet.ParquetWriter(path, block.schema)
        writer.write_table(block)
    assert writer is not None
    writer.close()


def _runs_text(results: Sequence[Result]) -> str:
    return str(runs_frame(results).to_csv(index=False, header=False, lineterminator="\n"))


def _epochs_text(results: Sequence[Result]) -> str:
    """Return the epochs as lines of CSV; the settings of a run are turned into text once, not once per epoch."""
    settings = settings_frame(results).to_csv(index=False, header=False, lineterminator="\n").splitlines()
    runs = np.repeat(np.arange(len(results)), [len(result.epochs) for result in results]).tolist()
    cells = zip(*map(_cells, measured_columns(results).values()), strict=True)
    return "".join(f"{settings[run]},{','.join(row)}\n" for run, row in zip(runs, cells, strict=True))


def _cells(column: Column) -> Iterator[str]:
    """Return the numbers as text, each with as many digits as it takes to read it back; NaN is an empty cell."""
    if column.dtype.kind == "i":
        return map(str, column.tolist())
    return ("" if number != number else repr(number) for number in column.tolist())


_RUNS = _Table(tuple(RUN_COLUMNS), lambda result: 1, runs_frame, _runs_text)
_EPOCHS = _Table(tuple(EPOCH_COLUMNS), lambda result: len(result.epochs), epochs_frame, _epochs_text)

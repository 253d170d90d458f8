"""The results as tables for other programs: a row a run, or a row a run and epoch, as CSV or Parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gradwalk.files import atomic
from gradwalk.sweep.store import Result
from gradwalk.train import Run

ENDINGS = (".csv", ".parquet")
Row = dict[str, Any]

_OWN_KINDS = {
    **dict.fromkeys(("identity", "status", "error", "began", "ended", "host", "versions"), "string"),
    **dict.fromkeys(("train_loss", "test_loss", "train_error", "test_error", "seconds"), "float64"),
}


def run_rows(results: Sequence[Result]) -> list[Row]:
    """Return a row a run: how it stands, its settings, and what was measured in its last epoch."""
    return [_run_row(result) for result in results]


def epoch_rows(results: Sequence[Result]) -> list[Row]:
    """Return a row a run and epoch; `identity` leads to the row of the run."""
    return [{"identity": result.identity} | asdict(epoch) for result in results for epoch in result.epochs]


def export(rows: Sequence[Row], path: Path) -> None:
    """Write rows as CSV or Parquet, by the ending of the path; None is an empty cell or a null."""
    check_ending(path)
    if not rows:
        raise ValueError(f"sweep: there are no rows to write to {path.name} yet")
    with atomic(path) as partial:
        (_write_csv if path.suffix.lower() == ".csv" else _write_parquet)(rows, partial)


def check_ending(path: Path) -> None:
    """Say which endings there are, where it is another."""
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"sweep: a table is written as {' or '.join(ENDINGS)}, got {path.name!r}")


def _run_row(result: Result) -> Row:
    last = {"train_loss": None, "train_mistakes": None, "test_loss": None, "test_mistakes": None}
    if result.last is not None:
        last = {name: getattr(result.last, name) for name in last}
    return {
        **{name: getattr(result, name) for name in ("identity", "status", "diverged", "error")},
        **result.run.model_dump(),
        **{name: getattr(result, name) for name in ("parameters", "train_examples", "test_examples")},
        "epochs_done": len(result.epochs),
        **{"train_error": result.train_error, "test_error": result.test_error, **last},
        "clipped": sum(epoch.clipped for epoch in result.epochs),
        **{"seconds": result.seconds, "starts": result.starts},
        **{"began": _date(result.began), "ended": _date(result.ended), "host": result.host},
        "versions": None if result.versions is None else json.dumps(result.versions),
    }


def _date(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _write_csv(rows: Sequence[Row], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _write_parquet(rows: Sequence[Row], path: Path) -> None:
    try:
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise ModuleNotFoundError("Parquet needs pyarrow: pip install 'gradwalk[parquet]'") from None
    schema = pyarrow.schema([(name, getattr(pyarrow, _kind(name))()) for name in rows[0]])
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows), schema=schema), path)


def _kind(column: str) -> str:
    """Return the type of a column; a setting's is that of its annotation."""
    if column not in Run.model_fields:
        return _OWN_KINDS.get(column, "int64")
    annotation = str(Run.model_fields[column].annotation)
    kinds = {"bool": "bool_", "float": "float64", "int": "int64"}
    return next((kind for name, kind in kinds.items() if name in annotation), "string")

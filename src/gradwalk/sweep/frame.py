"""The results of a sweep as pandas data frames, and as CSV or Parquet files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Any, get_type_hints

import numpy as np
import pandas as pd

from gradwalk.files import atomic
from gradwalk.sweep.epoch_table import EpochTable
from gradwalk.sweep.fields import value_types
from gradwalk.sweep.store import Result
from gradwalk.train import Epoch, Run

SUFFIXES = (".csv", ".parquet")
_PART = 50_000  # epochs that are written at a time

_SETTINGS = {name: field.annotation for name, field in Run.model_fields.items()}
_RESULT = get_type_hints(Result)
_EPOCH = get_type_hints(Epoch)
_ERRORS = {"train_error": float, "test_error": float}
_LAST = {name: _EPOCH[name] | None for name in ("train_loss", "train_mistakes", "test_loss", "test_mistakes")}

_RUN_COLUMNS: dict[str, Any] = {
    **{name: _RESULT[name] for name in ("identity", "status", "diverged", "error")},
    **_SETTINGS,
    **{name: _RESULT[name] for name in ("parameters", "train_examples", "test_examples")},
    **{"epochs_done": int, **_ERRORS, **_LAST, "clipped": int},
    **{name: _RESULT[name] for name in ("seconds", "starts")},
    **{"began": pd.Timestamp, "ended": pd.Timestamp, "host": _RESULT["host"], "versions": str | None},
}
_EPOCH_COLUMNS: dict[str, Any] = {"identity": str, **_SETTINGS, **_EPOCH, **_ERRORS}
_DTYPES = {str: "string", float: "float64", int: "int64", bool: "bool", pd.Timestamp: "datetime64[ns, UTC]"}


def runs_frame(results: Sequence[Result]) -> pd.DataFrame:
    """Return a data frame with one row per run: status, settings, and what was measured in its last epoch.

    `epochs` is the setting, `epochs_done` the number of epochs measured. `clipped` is summed over epochs.
    """
    return _frame([_run_row(result) for result in results], _RUN_COLUMNS)


def epochs_frame(results: Sequence[Result]) -> pd.DataFrame:
    """Return a data frame with one row per run and epoch: the run's settings, and what was measured in the epoch."""
    lengths = [len(result.epochs) for result in results]
    settings = _settings_frame(results).loc[np.repeat(np.arange(len(results)), lengths)]
    return pd.concat([settings.reset_index(drop=True), _measured_frame(results)], axis=1)


def write_frame(frame: pd.DataFrame, path: Path) -> None:
    """Write a data frame as CSV or Parquet, by the suffix of the path; missing values are empty cells or nulls."""
    check_suffix(path)
    if frame.empty:
        raise ValueError(f"sweep: there are no rows to write to {path.name} yet")
    with atomic(path) as partial:
        if path.suffix.lower() == ".csv":
            frame.to_csv(partial, index=False)
        else:
            frame.to_parquet(partial, index=False)


def write_epochs(results: Sequence[Result], path: Path) -> int:
    """Write what `epochs_frame` returns, a part at a time to save memory, and return the number of rows."""
    check_suffix(path)
    begun = [result for result in results if len(result.epochs)]
    if not begun:
        raise ValueError(f"sweep: there are no rows to write to {path.name} yet")
    with atomic(path) as partial:
        if path.suffix.lower() == ".csv":
            _write_csv(begun, partial)
        else:
            _write_parquet(begun, partial)
    return sum(len(result.epochs) for result in begun)


def _parts(results: Sequence[Result]) -> Iterator[list[Result]]:
    """Yield the results in parts of about `_PART` epochs."""
    ends = np.cumsum([len(result.epochs) for result in results])
    starts = np.searchsorted(ends, np.arange(0, ends[-1], _PART))
    for start, stop in pairwise([*np.unique(starts).tolist(), len(results)]):
        yield list(results[start:stop])


def _write_csv(results: Sequence[Result], path: Path) -> None:
    """Write the epochs as CSV; the settings of a run are turned into text once, not once per epoch."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(",".join(_EPOCH_COLUMNS) + "\n")
        for part in _parts(results):
            settings = _settings_frame(part).to_csv(index=False, header=False, lineterminator="\n").splitlines()
            measured = _measured_frame(part).to_csv(index=False, header=False, lineterminator="\n").splitlines()
            runs = np.repeat(np.arange(len(part)), [len(result.epochs) for result in part]).tolist()
            file.writelines(f"{settings[run]},{line}\n" for run, line in zip(runs, measured, strict=True))


def _write_parquet(results: Sequence[Result], path: Path) -> None:
    import pyarrow as arrow  # type: ignore[import-untyped]
    from pyarrow import parquet

    parts = _parts(results)
    first = arrow.Table.from_pandas(epochs_frame(next(parts)), preserve_index=False)
    with parquet.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for part in parts:
            writer.write_table(arrow.Table.from_pandas(epochs_frame(part), first.schema, preserve_index=False))


def check_suffix(path: Path) -> None:
    """Raise an error unless a data frame can be written to a path like this."""
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"sweep: a table is written as {' or '.join(SUFFIXES)}, got {path.name!r}")
    if path.suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
        raise ModuleNotFoundError("Parquet needs pyarrow: pip install 'gradwalk[parquet]'", name="pyarrow")


def _run_row(result: Result) -> dict[str, Any]:
    last, table = result.last, _table(result)
    return {
        **{name: getattr(result, name) for name in _RUN_COLUMNS if name in _RESULT or name in _ERRORS},
        **vars(result.run),
        **{name: None if last is None else getattr(last, name) for name in _LAST},
        "epochs_done": len(table),
        "clipped": int(table.column("clipped").sum()),
        **{name: _date(getattr(result, name)) for name in ("began", "ended")},
        "versions": None if result.versions is None else json.dumps(result.versions),
    }


def _table(result: Result) -> EpochTable:
    return result.epochs if isinstance(result.epochs, EpochTable) else EpochTable.of(result.epochs)


def _settings_frame(results: Sequence[Result]) -> pd.DataFrame:
    """Return the columns of `epochs_frame` that are the same in all epochs of a run, one row per run."""
    rows = [{"identity": result.identity, **vars(result.run)} for result in results]
    return _frame(rows, {"identity": str, **_SETTINGS})


def _measured_frame(results: Sequence[Result]) -> pd.DataFrame:
    """Return the columns of `epochs_frame` that differ between epochs, one row per run and epoch."""
    tables = [_table(result) for result in results]
    table, lengths = EpochTable.joined(tables), [len(table) for table in tables]
    columns = {name: table.column(name) for name in _EPOCH}
    rebuilt = np.repeat([result.run.task == "reconstruct" for result in results], lengths)
    for split in ("train", "test"):
        sizes = np.repeat([getattr(result, f"{split}_examples") for result in results], lengths)
        shares = np.divide(columns[f"{split}_mistakes"], sizes, out=np.full(len(sizes), np.nan), where=sizes > 0)
        columns[f"{split}_error"] = np.where(rebuilt, columns[f"{split}_loss"], shares)
    return pd.DataFrame(columns)


def _frame(rows: Sequence[dict[str, Any]], columns: dict[str, Any]) -> pd.DataFrame:
    dtypes = {name: _dtype(annotation) for name, annotation in columns.items()}
    return pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=dtypes[name]) for name in columns})


def _dtype(annotation: Any) -> str:
    """Return the pandas dtype for values of an annotation; whole numbers and truth values may be missing."""
    types = value_types(annotation)
    (kind,) = types - {NoneType}
    dtype = _DTYPES[kind]
    nullable = {"int64": "Int64", "bool": "boolean"}
    return nullable.get(dtype, dtype) if NoneType in types else dtype


def _date(seconds: float | None) -> pd.Timestamp | None:
    return None if seconds is None else pd.Timestamp(round(seconds), unit="s", tz="UTC")

"""The results of a sweep as pandas data frames, and as CSV or Parquet files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import NoneType
from typing import Any, get_type_hints

import pandas as pd

from gradwalk.files import atomic
from gradwalk.sweep.fields import value_types
from gradwalk.sweep.store import Result
from gradwalk.train import Epoch, Run

SUFFIXES = (".csv", ".parquet")

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
    rows = [_epoch_row(result, epoch) for result in results for epoch in result.epochs]
    return _frame(rows, _EPOCH_COLUMNS)


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


def check_suffix(path: Path) -> None:
    """Raise an error unless a data frame can be written to a path like this."""
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"sweep: a table is written as {' or '.join(SUFFIXES)}, got {path.name!r}")
    if path.suffix.lower() == ".parquet" and find_spec("pyarrow") is None:
        raise ModuleNotFoundError("Parquet needs pyarrow: pip install 'gradwalk[parquet]'", name="pyarrow")


def _run_row(result: Result) -> dict[str, Any]:
    return {
        **{name: getattr(result, name) for name in _RUN_COLUMNS if name in _RESULT or name in _ERRORS},
        **result.run.model_dump(),
        **{name: None if result.last is None else getattr(result.last, name) for name in _LAST},
        "epochs_done": len(result.epochs),
        "clipped": sum(epoch.clipped for epoch in result.epochs),
        **{name: _date(getattr(result, name)) for name in ("began", "ended")},
        "versions": None if result.versions is None else json.dumps(result.versions),
    }


def _epoch_row(result: Result, epoch: Epoch) -> dict[str, Any]:
    errors = {"train_error": result.train_error_after(epoch), "test_error": result.test_error_after(epoch)}
    return {"identity": result.identity, **result.run.model_dump(), **vars(epoch), **errors}


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

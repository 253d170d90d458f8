"""The results of a sweep as pandas data frames; `gradwalk.sweep.export` writes them to files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import NoneType
from typing import Any, get_type_hints

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gradwalk.sweep.epoch_table import EpochTable
from gradwalk.sweep.fields import value_types
from gradwalk.sweep.store import Result
from gradwalk.train import Epoch, Run

Column = NDArray[np.float64] | NDArray[np.int64]

_SETTINGS = {name: field.annotation for name, field in Run.model_fields.items()}
_RESULT = get_type_hints(Result)
_EPOCH = get_type_hints(Epoch)
_ERRORS = {"train_error": float, "test_error": float}
_LAST = {name: _EPOCH[name] | None for name in ("train_loss", "train_mistakes", "test_loss", "test_mistakes")}

RUN_COLUMNS: dict[str, Any] = {
    **{name: _RESULT[name] for name in ("identity", "status", "diverged", "error")},
    **_SETTINGS,
    **{name: _RESULT[name] for name in ("parameters", "train_examples", "test_examples")},
    **{"epochs_done": int, **_ERRORS, **_LAST, "clipped": int},
    **{name: _RESULT[name] for name in ("seconds", "starts")},
    **{"began": pd.Timestamp, "ended": pd.Timestamp, "host": _RESULT["host"], "versions": str | None},
}
EPOCH_COLUMNS: dict[str, Any] = {"identity": str, **_SETTINGS, **_EPOCH, **_ERRORS}
_DTYPES = {str: "string", float: "float64", int: "int64", bool: "bool", pd.Timestamp: "datetime64[ns, UTC]"}


def runs_frame(results: Sequence[Result]) -> pd.DataFrame:
    """Return a data frame with one row per run: status, settings, and what was measured in its last epoch.

    `epochs` is the setting, `epochs_done` the last epoch that was measured. `clipped` is summed over epochs.
    """
    return _frame([_run_row(result) for result in results], RUN_COLUMNS)


def epochs_frame(results: Sequence[Result]) -> pd.DataFrame:
    """Return a data frame with one row per run and measured epoch: the run's settings, and what was measured.

    `epoch` is its number; with `measure_every` above 1 there is no row for the epochs between, and `clipped` and
    `seconds` are of all epochs since the row before.
    """
    lengths = [len(result.epochs) for result in results]
    settings = settings_frame(results).loc[np.repeat(np.arange(len(results)), lengths)]
    return pd.concat([settings.reset_index(drop=True), pd.DataFrame(measured_columns(results))], axis=1)


def _run_row(result: Result) -> dict[str, Any]:
    last, table = result.last, _table(result)
    return {
        **{name: getattr(result, name) for name in RUN_COLUMNS if name in _RESULT or name in _ERRORS},
        **vars(result.run),
        **{name: None if last is None else getattr(last, name) for name in _LAST},
        "epochs_done": result.epochs_done,
        "clipped": int(table.column("clipped").sum()),
        **{name: _date(getattr(result, name)) for name in ("began", "ended")},
        "versions": None if result.versions is None else json.dumps(result.versions),
    }


def _table(result: Result) -> EpochTable:
    return result.epochs if isinstance(result.epochs, EpochTable) else EpochTable.of(result.epochs)


def settings_frame(results: Sequence[Result]) -> pd.DataFrame:
    """Return the columns of `epochs_frame` that are the same in all epochs of a run, one row per run."""
    rows = [{"identity": result.identity, **vars(result.run)} for result in results]
    return _frame(rows, {"identity": str, **_SETTINGS})


def measured_columns(results: Sequence[Result]) -> dict[str, Column]:
    """Return the columns of `epochs_frame` that differ between epochs, one value per run and epoch."""
    tables = [_table(result) for result in results]
    table, lengths = EpochTable.joined(tables), [len(table) for table in tables]
    columns: dict[str, Column] = {name: table.column(name) for name in _EPOCH}
    rebuilt = np.repeat([result.run.task == "reconstruct" for result in results], lengths)
    for split in ("train", "test"):
        sizes = np.repeat([getattr(result, f"{split}_examples") for result in results], lengths)
        shares = np.divide(columns[f"{split}_mistakes"], sizes, out=np.full(len(sizes), np.nan), where=sizes > 0)
        columns[f"{split}_error"] = np.where(rebuilt, columns[f"{split}_loss"], shares)
    return columns


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

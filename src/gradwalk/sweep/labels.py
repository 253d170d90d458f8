"""Labels of runs by the settings in which they differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradwalk.sweep.store import Result
from gradwalk.train import Run


def varying_settings(results: Sequence[Result]) -> list[str]:
    """Return the names of the settings in which the runs differ, in the order of `Run`.

    rate_in and rate_out count as one if they are equal in every run; `deepest` counts if its effect varies.
    """
    runs = [result.run for result in results]
    names = [name for name in Run.model_fields if len({getattr(run, name) for run in runs}) > 1]
    implied = {"rate_out"} if all(run.rate_in == run.rate_out for run in runs) else set()
    implied |= {"deepest"} if len({run.deepest or run.depth for run in runs}) == 1 else set()
    return [name for name in names if name not in implied]


def run_labels(results: Sequence[Result]) -> list[str]:
    """Return a label per run: the values of the settings in which the runs differ, such as "gain 1.2, seed 0"."""
    names = varying_settings(results)
    return [", ".join(f"{name} {setting_text(getattr(result.run, name))}" for name in names) for result in results]


def setting_text(value: Any) -> str:
    """Return a setting as text: floats in short form, and None as "unset".

    >>> setting_text(0.10), setting_text(None), setting_text("relu")
    ('0.1', 'unset', 'relu')
    """
    return "unset" if value is None else f"{value:g}" if isinstance(value, float) else str(value)

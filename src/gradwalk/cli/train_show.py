"""The table at the end of `gradwalk train`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradwalk.words import duration

if TYPE_CHECKING:
    from gradwalk.sweep import Result


def result_table(results: Sequence[Result]) -> list[list[str]]:
    """Return a table with one row per run: the settings that vary, and what was measured at the end."""
    from gradwalk.sweep.labels import setting_text, varying_settings

    varying = varying_settings(results)
    rows = [["run", *varying, "epochs", "loss", "error", "test error", "time"]]
    for number, result in enumerate(results, 1):
        settings = [setting_text(getattr(result.run, name)) for name in varying]
        rows.append([str(number), *settings, _progress(result), *_measured(result)])
    return rows


def _progress(result: Result) -> str:
    if result.status == "failed":
        return "failed"
    return str(result.epochs_done) if result.diverged is None else f"diverged in {result.diverged}"


def _measured(result: Result) -> list[str]:
    last = result.last
    if last is None:
        return [""] * 4
    errors = result.train_error_after(last), result.test_error_after(last)
    shown = [f"{100 * error:.2f} %" if result.run.task == "classify" else f"{error:.4g}" for error in errors]
    return [f"{last.train_loss:.4g}", *shown, "" if result.seconds is None else duration(result.seconds)]

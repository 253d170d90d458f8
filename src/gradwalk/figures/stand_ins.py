"""Data sets that stand in for others, so that a figure can be tried without a download."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradwalk.data import DATASETS, Datasets

if TYPE_CHECKING:
    from gradwalk.sweep import Spec


def with_available_data(spec: Spec, datasets: Datasets) -> tuple[Spec, str | None]:
    """Return the spec with data sets that can be loaded, and a note if one of them stands in for another.

    A data set without a stand-in (TIMIT) raises a FileNotFoundError that says how to get it.
    """
    for run in {(run.data, run.examples, run.scaling): run for run in spec.runs()}.values():
        try:
            datasets.load(run.data, run.examples, run.scaling)
        except FileNotFoundError as error:
            stand_in = DATASETS[run.data].stand_in
            if stand_in is None:
                raise
            note = f"{run.data} is not available, {stand_in} is used instead ({error})"
            return spec.override(_settings(spec, stand_in, datasets)), note
    return spec, None


def _settings(spec: Spec, name: str, datasets: Datasets) -> list[str]:
    """Return the settings that replace a spec's data set, with all its examples if the spec asks for more."""
    most = len(datasets.load(name, None, "none").train)
    too_many = any((run.examples or 0) > most for run in spec.runs())
    return [f"data={name}", *(["examples=none"] if too_many else [])]

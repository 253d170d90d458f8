"""When the table of a trained figure can decide a claim.

A table counts if it was trained on the claim's data set, on at least 5,000 examples for at least 5 epochs; otherwise
the claim is undecided. A verdict from less than the paper's scale is about that scale, and the page says so. Fewer
epochs than the paper's can show that something is reached, but cannot refute it: C9 and C12 come to "does not hold"
only after 500 epochs. The order of depths (C7, C8, C10) shows only once the depths that the claim names have converged;
before that, after fewer than 500 epochs, only their speed could be compared.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gradwalk.data import title
from gradwalk.figures import Table
from gradwalk.figures.training_scale import TrainingScale

MNIST, TIMIT, TIMIT_SAMPLE = "mnist", "TIMIT", "TIMIT sample"
PAPERS_EPOCHS = 500
LEAST_EXAMPLES, LEAST_EPOCHS = 5_000, 5
LEARNED = 0.25  # of a constant answer's error: above this, a network has not converged


def too_small(table: Table, *data: str, epochs: float = LEAST_EPOCHS) -> str | None:
    """Return why a table cannot decide a claim about such data, None if it may."""
    scale = TrainingScale.of(table)
    if scale.data not in data:
        return f"trained on {title(scale.data)}, not on {' or '.join(map(title, data))}"
    if scale.examples < LEAST_EXAMPLES:
        return f"only {scale.examples:,.0f} examples"
    return f"only {scale.epochs:.0f} epochs" if scale.epochs < epochs else None


def missing(errors: Mapping[int, float], *depths: int) -> str | None:
    """Return which of these depths were not run, None if all were."""
    absent = [str(depth) for depth in depths if depth not in errors]
    return f"D = {' and '.join(absent)} not run" if absent else None


def unsettled(table: Table, errors: Mapping[int, float], enough: float, *depths: int) -> str | None:
    """Return which of these depths have not converged to `enough`, None if all have or the epochs are the paper's."""
    epochs = TrainingScale.of(table).epochs
    slow = [str(depth) for depth in depths if not errors[depth] <= enough]
    if not slow or epochs >= PAPERS_EPOCHS:
        return None
    return f"after {epochs:.0f} of {PAPERS_EPOCHS} epochs not converged: D = {' and '.join(slow)}"


def infinite_if_diverged(error: float) -> float:
    """Return an error that compares as larger than all others if every run diverged."""
    return float(np.nan_to_num(error, nan=np.inf))

"""When the table of a trained figure can decide a claim.

A table counts if it was trained on the claim's data set, on at least 5,000 examples for at least 5 epochs; otherwise
the claim is undecided. A verdict from less than the paper's scale is about that scale, and the page says so. Networks
that are still learning can show that something is reached, but cannot refute it, and their order is one of speed: so
what is not reached counts only if the learning rates have run down as the paper's have (0.995^500 = 0.08), in at least
20 epochs.
"""

from __future__ import annotations

from collections.abc import Mapping

from gradwalk.data import title
from gradwalk.figures import Table
from gradwalk.figures.estimate import Estimate
from gradwalk.figures.training_scale import TrainingScale

MNIST, TIMIT, TIMIT_SAMPLE = "mnist", "TIMIT", "TIMIT sample"
PAPERS_EPOCHS = 500
LEAST_EXAMPLES, LEAST_EPOCHS = 5_000, 5
RUN_DOWN, RUN_DOWN_EPOCHS = 0.1, 20  # of the learning rates, and the epochs in which that must happen at least
LEARNED = 0.25  # of a constant answer's error: above this, a network has not converged


def too_small(table: Table, *data: str, epochs: float = LEAST_EPOCHS) -> str | None:
    """Return why a table cannot decide a claim about such data, None if it may."""
    scale = TrainingScale.of(table)
    if scale.data not in data:
        return f"trained on {title(scale.data)}, not on {' or '.join(map(title, data))}"
    if scale.examples < LEAST_EXAMPLES:
        return f"only {scale.examples:,.0f} examples"
    return f"only {scale.epochs:.0f} epochs" if scale.epochs < epochs else None


def still_learning(table: Table) -> str | None:
    """Return why what was not reached may still be, None if the learning rates have run down."""
    scale = TrainingScale.of(table)
    if scale.epochs >= RUN_DOWN_EPOCHS and scale.rate_left <= RUN_DOWN:
        return None
    return f"after {scale.epochs:.0f} epochs, with {100 * scale.rate_left:.0f} % of the learning rates left"


def unsettled(table: Table, errors: Mapping[int, Estimate], enough: float, *depths: int) -> str | None:
    """Return which of these depths have not converged to `enough`, None if all have or the rates have run down."""
    slow = [str(depth) for depth in depths if not errors[depth].error <= enough]
    reason = still_learning(table)
    return f"{reason}, not converged: D = {' and '.join(slow)}" if slow and reason else None

"""D1, a claim of our own: the predicted number of directions predicts which networks start to learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradwalk.figures import Table
from gradwalk.figures.learning import FEW, cells, correlation
from gradwalk.figures.loss_by_depth import CHANCE
from gradwalk.figures.outcomes import grouped
from gradwalk.remedies import ENOUGH
from gradwalk.report.claims.training import MNIST, too_small
from gradwalk.report.finding import Claim, Finding, Tables, graded, judged

if TYPE_CHECKING:
    from pandas import DataFrame

DEEP = 64  # layers that must have been trained for a verdict
LEAST_CELLS = 8  # networks at a depth for a rank correlation, and on either side of the limits together
CORRELATED = -0.7
HALF = 0.5 * CHANCE
MOSTLY = 0.9  # of the networks on one side of a limit


def directions_predict_learning(tables: Tables) -> Finding:
    """Judge D1."""
    rows = cells(tables["learning"])
    healthy = rows[rows["healthy"]]
    by_depth = {depth: same for depth, same in grouped(healthy, "depth") if len(same) >= LEAST_CELLS}
    ranks = {depth: correlation(same) for depth, same in by_depth.items()}
    many, few = healthy[healthy["directions"] >= ENOUGH], healthy[healthy["directions"] < FEW]
    learned, stuck = int((many["loss"] < HALF).sum()), int((~(few["loss"] < HALF)).sum())
    came_out = (
        "; ".join(
            f"rank correlation {rank:.2f} over {len(by_depth[depth])} networks of {depth:.0f} layers"
            for depth, rank in ranks.items()
        )
        + f"; below half of chance are {learned} of {len(many)} networks with at least {ENOUGH:g} directions, and "
        f"{len(few) - stuck} of {len(few)} with fewer than {FEW:g}"
    )
    parts = [*(rank <= CORRELATED for rank in ranks.values())]
    parts += [learned >= MOSTLY * len(many), stuck >= MOSTLY * len(few)]
    return judged(came_out, _obstacle(tables["learning"], by_depth, many, few), lambda: graded(parts))


D1 = Claim(
    name="D1",
    words="How many directions are predicted to pass predicts which networks start to learn, where the norm of the "
    "gradient is healthy.",
    criterion="Over networks (an activation, weights and a depth) whose predicted spread is at most 2: at each depth "
    "with at least 8 of them, the rank correlation between predicted directions and training loss is at most -0.7; of "
    "those with at least 6 directions, 90 % have a loss below half of chance; of those with fewer than 2, 90 % do not. "
    "Holds: all of this. In part: some. A loss is the median over the seeds at the best of the learning rates. "
    "Undecided: not on MNIST, fewer than 5,000 examples, no 8 networks of 64 layers or more, or fewer than 4 networks "
    "with at least 6 directions or with fewer than 2.",
    figures=("learning",),
    judge=directions_predict_learning,
)


def _obstacle(table: Table, by_depth: dict[float, DataFrame], many: DataFrame, few: DataFrame) -> str | None:
    """Return why the table cannot decide the claim, None if it can."""
    if small := too_small(table, MNIST, epochs=0):
        return small
    if max(by_depth, default=0) < DEEP:
        return f"no {LEAST_CELLS} networks of {DEEP} layers or more"
    return "too few networks beyond the limits" if min(len(many), len(few)) < LEAST_CELLS // 2 else None

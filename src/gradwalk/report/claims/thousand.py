"""C9, about the 1000 layers of Figure 4C."""

from __future__ import annotations

import math

from gradwalk.data import full_size
from gradwalk.figures.fig4c import DeepRuns, deep_runs
from gradwalk.figures.training_scale import TrainingScale
from gradwalk.report.claims.training import MNIST, PAPERS_EPOCHS, too_small
from gradwalk.report.finding import FAILS, HOLDS, IN_PART, Claim, Finding, Tables, Verdict, judged

ABOUT_50, TWICE_THAT = 75.0, 150.0  # mistakes
PAPERS_WIDTH = (240, 260)  # about 249


def a_thousand_layers_learn(tables: Tables) -> Finding:
    """Judge C9."""
    table = tables["fig4c"]
    scale, runs = TrainingScale.of(table), deep_runs(table)
    mistakes = runs.lowest.get("gaussian", math.inf)
    counts = " and ".join(
        f"{count:,.0f} from {weights.replace('gaussian', 'Gaussian')} weights" for weights, count in runs.lowest.items()
    )
    came_out = (
        f"Fewest mistakes of {scale.examples:,.0f}: {counts}, within {scale.epochs:.0f} epochs; D = {runs.depth}, "
        f"N = {runs.width}"
    )
    obstacle = too_small(table, MNIST) or _too_small_for_this(scale, runs)
    if mistakes > TWICE_THAT and scale.epochs < PAPERS_EPOCHS:
        obstacle = obstacle or f"{PAPERS_EPOCHS} epochs are needed"

    def verdict() -> Verdict:
        return HOLDS if mistakes <= ABOUT_50 else IN_PART if mistakes <= TWICE_THAT else FAILS

    return judged(came_out, obstacle, verdict)


C9 = Claim(
    name="C9",
    words="1000 layers reach about 50 training mistakes on MNIST (N = 249, g = 1.05).",
    criterion="Holds: the best run from Gaussian weights came down to 75 training mistakes or fewer. In part: to "
    "150. Undecided: not on all 60,000 examples of MNIST, not from Gaussian weights, fewer than 1000 layers, not "
    "about 249 wide, or more than 150 mistakes in fewer than 500 epochs.",
    figures=("fig4c",),
    judge=a_thousand_layers_learn,
    in_paper=True,
)


def _too_small_for_this(scale: TrainingScale, runs: DeepRuns) -> str | None:
    if scale.examples < (whole := full_size(MNIST) or 0):
        return f"{whole:,} examples are needed"
    if "gaussian" not in runs.lowest:
        return "Gaussian weights are needed"
    if runs.depth < 1000 or not PAPERS_WIDTH[0] <= runs.width <= PAPERS_WIDTH[1]:
        return "D = 1000 and N = 249 are needed"
    return None

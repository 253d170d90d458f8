"""C7, C8 and C10, about training error against depth in Figures 4A, 4B and 4D."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradwalk.figures import Table
from gradwalk.figures.error_by_depth import errors_by_depth
from gradwalk.figures.estimate import Estimate, all_below, lowest
from gradwalk.figures.outcomes import NEAR_ZERO, constant_error, pca_error, percent
from gradwalk.figures.training_scale import TrainingScale
from gradwalk.report.claims.matching import Matching
from gradwalk.report.claims.training import LEARNED, MNIST, TIMIT, TIMIT_SAMPLE, still_learning, too_small, unsettled
from gradwalk.report.finding import Claim, Finding, Part, Tables, weighed

ABOUT_TWICE = 2.5  # the largest factor that is still "roughly 2x"
TOO_CLOSE = "too close to call"


@dataclass(frozen=True)
class _Depths:
    """The errors of a table by depth, those of the depths that stand for the paper's, and all of it in words."""

    table: Table
    matching: Matching
    errors: dict[int, Estimate]
    came_out: str

    @classmethod
    def of(cls, figure: str, table: Table, *paper: int) -> _Depths:
        by_depth, matching = errors_by_depth(table), Matching.of(figure, table)
        words = ", ".join(f"{percent(error, by_depth.examples)} at D = {d}" for d, error in by_depth.errors.items())
        return cls(table, matching, by_depth.estimates, f"Least error {words}{matching.words(*paper)}")

    def named(self, *paper: int) -> list[Estimate]:
        return [self.errors[self.matching.here(depth)] for depth in paper]

    def others(self, depths: Sequence[int]) -> list[Estimate]:
        return [error for depth, error in self.errors.items() if depth not in depths]


def shallowest_is_best(tables: Tables) -> Finding:
    """Judge C7."""
    table = tables["fig4a"]
    nets = _Depths.of("fig4a", table, 16, 32)
    obstacle = too_small(table, MNIST) or nets.matching.missing(16, 32)
    if 2 not in nets.errors:
        obstacle = obstacle or "D = 2 not run"
    if obstacle:
        return weighed(nets.came_out, obstacle, list)
    chosen = [2, nets.matching.here(16), nets.matching.here(32)]
    others = nets.others(chosen)
    obstacle = None if others else "no depth besides these three"
    obstacle = obstacle or unsettled(table, nets.errors, NEAR_ZERO, *chosen)

    def parts() -> list[Part]:
        first = all_below([nets.errors[2]], nets.others([2]))
        return [Part(first, f"D = 2: {TOO_CLOSE}"), Part(all_below(nets.named(16, 32), others), f"next: {TOO_CLOSE}")]

    return weighed(nets.came_out, obstacle, parts)


def deep_autoencoder_is_close(tables: Tables) -> Finding:
    """Judge C8."""
    table = tables["fig4b"]
    nets = _Depths.of("fig4b", table, 128)
    shallowest = min(nets.errors)
    least, constant, pca = nets.errors[shallowest].error, constant_error(table.frame), pca_error(table.frame)
    came_out = (
        f"{nets.came_out}; PCA with 30 components {pca:.4f}; a constant answer has {constant / least:.2g} times the "
        f"error of D = {shallowest}"
    )
    obstacle = too_small(table, MNIST) or _not_global(table) or nets.matching.missing(128)
    if not obstacle and not least <= pca:
        obstacle = f"D = {shallowest} is worse than PCA with 30 components"
    if obstacle:
        return weighed(came_out, obstacle, list)
    (deep,) = nets.named(128)
    came_out += f", D = {nets.matching.here(128)} {deep.error / least:.2g} times"

    def parts() -> list[Part]:
        first = all_below([nets.errors[shallowest]], nets.others([shallowest]))
        close = _reached(deep.error <= ABOUT_TWICE * least, table)
        return [Part(first, f"D = {shallowest}: {TOO_CLOSE}"), close]

    return weighed(came_out, None, parts)


def sixteen_and_thirty_two_tie(tables: Tables) -> Finding:
    """Judge C10."""
    table = tables["fig4d"]
    nets = _Depths.of("fig4d", table, 16, 32)
    came_out = nets.came_out
    if TrainingScale.of(table).data == TIMIT_SAMPLE:
        came_out += "; on the public sample, a fortieth of TIMIT, whose errors are not comparable with the paper’s"
    obstacle = too_small(table, TIMIT, TIMIT_SAMPLE) or nets.matching.missing(16, 32)
    if obstacle:
        return weighed(came_out, obstacle, list)
    chosen = [nets.matching.here(16), nets.matching.here(32)]
    others = nets.others(chosen)
    obstacle = None if others else "no depth besides these two"
    obstacle = obstacle or unsettled(table, nets.errors, LEARNED * constant_error(table.frame), *chosen)
    return weighed(came_out, obstacle, lambda: _best_and_tied(nets.named(16, 32), others))


C7 = Claim(
    name="C7",
    words="MNIST: depth 2 has the best training error, depths 16 and 32 come next.",
    criterion="Two parts: D = 2 has the least training error; D = 16 and 32 have less than all other depths. The "
    "error of a depth is the least over the learning rates of the mean over g and seeds, as Figure 4A shows it. An "
    "error is lower than another if it is so by more than a tenth and by two standard errors, so that ties at zero "
    "decide nothing. With fewer parameters, the depths of the same depth over width stand for 16 and 32. Undecided: "
    "not on MNIST, fewer than 5,000 examples or 5 epochs, without these depths and one more; a part that is too "
    "close to call; or one of the three depths still has more than 1 % mistakes and the learning rates have not run "
    "down to a tenth.",
    figures=("fig4a",),
    judge=shallowest_is_best,
    errata=("E6",),
    in_paper=True,
)
C8 = Claim(
    name="C8",
    words="Auto-encoder: the most shallow is best, and depth 128 only roughly 2x greater in error.",
    criterion="Two parts: the shallowest auto-encoder has the least error; that of D = 128 is at most 2.5 times as "
    "large. With fewer parameters, the depth of the same depth over width stands for 128. Undecided: not on MNIST, "
    "fewer than 5,000 examples or 5 epochs, without that depth; pixels not scaled globally, where a constant answer "
    "would pass; the shallowest is worse than PCA with 30 components; the first part is too close to call; or the "
    "second fails before the learning rates have run down to a tenth.",
    figures=("fig4b",),
    judge=deep_autoencoder_is_close,
    errata=("E7",),
    in_paper=True,
)
C10 = Claim(
    name="C10",
    words="TIMIT: depth 16 has the best training error, depth 32 essentially tied.",
    criterion="Two parts: D = 16 has the least training error, alone or tied with D = 32; the two are tied, and no "
    "other depth is as good. They are tied if neither is lower by more than a tenth and by two standard errors. With "
    "fewer parameters, the depths of the same depth over width stand for 16 and 32. Undecided: not on TIMIT or its "
    "public sample (which is named), fewer than 5,000 examples or 5 epochs, without these depths and one more; too "
    "close to call; or one of the two still has more than a quarter of a constant answer’s error and the learning "
    "rates have not run down to a tenth.",
    figures=("fig4d",),
    judge=sixteen_and_thirty_two_tie,
    in_paper=True,
)


def _best_and_tied(pair: Sequence[Estimate], others: Sequence[Estimate]) -> list[Part]:
    """Return whether D = 16 is best, alone or together with D = 32, and whether they are tied for the best."""
    sixteen, thirty_two = pair
    tied = not sixteen.is_below(thirty_two) and not thirty_two.is_below(sixteen)
    best = all_below([lowest(pair)], others)
    first = False if thirty_two.is_below(sixteen) else best
    return [Part(first, f"best: {TOO_CLOSE}"), Part(tied and best, f"best: {TOO_CLOSE}")]


def _not_global(table: Table) -> str | None:
    scalings = set(table["scaling"])
    return None if scalings == {"global"} else f"pixels scaled by {' and '.join(sorted(scalings))}, not globally"


def _reached(yes: bool, table: Table) -> Part:
    """Return a part that what is reached bears out, and that the rest refutes once the learning rates have run down."""
    reason = still_learning(table)
    return Part(True) if yes else Part(None, reason) if reason else Part(False)

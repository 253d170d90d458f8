"""The record of a gain and how certain it is."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from gradwalk.display import Shown, plot_expected_walk
from gradwalk.theory import Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Source = Literal["formula", "expansion", "table", "walks"]


@dataclass(frozen=True)
class GainEstimate(Shown):
    """An unbiased gain and how certain it is.

    Attributes:
        value: the gain.
        standard_error: of `value`; 0 where it is exact; from the expansion, an estimate of what that leaves out.
        spread: the standard deviation of the final log-norm over networks.
        kind: of the activation: "neutral", "steady" or "unsteady".
        walks: the number of walks that were sampled for it.
        source: an exact "formula", the "expansion" in 1 / width, a "table" that comes with gradwalk, or "walks".
    """

    value: float
    standard_error: float
    spread: float
    kind: Kind
    walks: int
    source: Source

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the walks that are expected at this gain, and return the axes."""
        return plot_expected_walk(ax, 0.0, self.spread, f"{self.kind}, g = {self.value:.5g}")

"""The scale of residual branches: how strong a branch may be for a given growth of the gradient over all blocks.

In a residual network no gain makes the walk unbiased: the skip connection alone passes the gradient unchanged, and
every branch adds to it. What can be chosen is the scale of the branches, and with it the total drift.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import scipy

from gradwalk import activations, checks
from gradwalk.activations import Activation
from gradwalk.blocks import Residual, dense, residual
from gradwalk.checks import Weights
from gradwalk.display import Shown, plot_expected_walk
from gradwalk.simulation import Walks, simulate
from gradwalk.theory import step

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_UNITS = 4e6  # units sampled per trial scale, if the number of walks is left open
_LOWEST, _HIGHEST = 1e-6, 1e3


@dataclass(frozen=True)
class BranchScale(Shown):
    """The scale of the branches at which the mean final log-norm is `drift`.

    Attributes:
        value: the scale.
        standard_error: of `value`.
        drift: the mean final log-norm that was asked for.
        spread: the standard deviation of the final log-norm over networks.
        walks: the number of sampled networks.
    """

    value: float
    standard_error: float
    drift: float
    spread: float
    walks: int

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the walks that are expected with branches of this scale, and return the axes."""
        return plot_expected_walk(ax, self.drift, self.spread, f"branches of scale {self.value:.5g}")


def branch_scale(
    block: str | Activation | Residual,
    width: int,
    blocks: int,
    drift: float = 0.5,
    *,
    weights: Weights = "gaussian",
    walks: int | None = None,
    seed: int = 0,
) -> BranchScale:
    """Return the scale of the branches of a residual network at which its gradient grows by exp(drift) on average.

    Args:
        block: a residual block, whose own `scale` is replaced; or an activation f, which stands for the branch
            x -> g W_2 f(W_1 x), g being the gain of f for one step at unit variance.
        width: the units of the stream.
        blocks: the number of residual blocks.
        drift: the mean of the final log-norm, above 0. 0.5 is what 1 / sqrt(blocks) gives two-layer ReLU branches.
        weights: "gaussian" or "orthogonal".
        walks: the number of sampled networks (default: by width and blocks).
        seed: identifies the random numbers; the same seed always gives the same answer.

    Returns:
        The scale with its standard error, and the spread of the final log-norm. Solved with the exact sampler.

    Raises:
        ValueError: if an argument is out of range, no scale of the branches has that drift, or no activation has that
            name.
        TypeError: if an argument has the wrong type.

    >>> 0.9 < branch_scale("relu", width=50, blocks=20, drift=0.5).value * 20**0.5 < 1.1
    True
    """
    template = block if isinstance(block, Residual) else _two_layers(activations.activation(block), width)
    n = checks.whole("branch_scale", "width", width)
    count = checks.whole("branch_scale", "blocks", blocks, most=checks.DEEPEST)
    goal = checks.positive("branch_scale", "drift", drift)
    fitting = max(100, min(2000, int(_UNITS / (n * count))))
    number = fitting if walks is None else checks.whole("branch_scale", "walks", walks, least=8)
    checks.whole("branch_scale", "seed", seed, least=0, most=2**63)
    return _solve(
        template, n, count, goal, checks.one_of("branch_scale", "weights", weights, checks.WEIGHTS), number, seed
    )


def _two_layers(f: Activation, width: int) -> Residual:
    """Return the usual branch: two weight layers with the activation between them."""
    gain = math.exp(-step(f, checks.whole("branch_scale", "width", width), q=1.0).drift / 2)
    return residual(dense("linear"), dense(f, gain=gain))


@lru_cache(maxsize=256)
def _solve(
    template: Residual, width: int, blocks: int, goal: float, weights: Weights, walks: int, seed: int
) -> BranchScale:
    """Find the root of the mean final log-norm less the goal with a fifth of the walks; refine it once with all."""

    def sample(log_scale: float, count: int) -> Walks:
        block = replace(template, scale=math.exp(log_scale))
        return simulate(block, width, blocks, walks=count, rng=seed, weights=weights, every=blocks)

    def excess(log_scale: float) -> float:
        return sample(log_scale, max(walks // 5, 8)).mean - goal

    low, high = _bracket(excess, 0.5 * math.log(2 * goal / blocks))
    root = float(scipy.optimize.brentq(excess, low, high, xtol=1e-2))
    slope = (excess(root + 0.05) - excess(root - 0.05)) / 0.1
    at_root = sample(root, walks)
    value = math.exp(root - (at_root.mean - goal) / slope)
    return BranchScale(value, value * at_root.standard_error / abs(slope), goal, at_root.spread, walks)


def _bracket(excess: Callable[[float], float], start: float) -> tuple[float, float]:
    """Return two logarithms of scales between which the excess of the drift changes its sign."""
    at_start, reach = excess(start), 0.2
    near = start
    while _LOWEST < math.exp(near) < _HIGHEST:
        other = start - math.copysign(reach, at_start)
        if excess(other) * at_start <= 0:
            return min(near, other), max(near, other)
        near, reach = other, 2 * reach
    raise ValueError(
        f"branch_scale: no scale between {_LOWEST:g} and {_HIGHEST:g} gives this drift; norms may limit how fast the "
        "gradient grows"
    )

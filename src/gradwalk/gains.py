"""The gain that makes the walk unbiased, and what depth and width go with it.

Where the step does not depend on the variance of the signal, theory gives the gain; elsewhere it depends on depth,
because that variance settles slowly, and the exact sampler is solved for it: the same random numbers at every trial
gain make the mean log-norm a smooth function of it.
"""

import math
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy import optimize

from gradwalk import activations, checks
from gradwalk.activations import Activation
from gradwalk.simulation import Walks, simulate
from gradwalk.theory import chi, kind, step

SERVICEABLE = 2.0  # spread of the final log-norm up to which a depth is called serviceable
_UNITS = 1e7  # units drawn a trial gain, when the number of walks is left open
_FARTHEST = 100_000  # how deep and how wide the searches with the sampler go


class UnsteadyWarning(UserWarning):
    """The gain makes the mean log-norm 0, but single networks lie too far from it to be of use."""


@dataclass(frozen=True)
class GainEstimate:
    """A gain with what is known of it.

    standard_error: of `value`, 0 where it is exact. spread: the standard deviation of the final log-norm over networks.
    kind: "neutral", "steady" or "unsteady". walks: how many the estimate rests on, 0 where it is exact.
    """

    value: float
    standard_error: float
    spread: float
    kind: str
    walks: int


def gain(
    activation: str | Activation,
    width: int | Sequence[int],
    depth: int | None = None,
    *,
    weights: str = "gaussian",
    formula: str = "exact",
    seed: int = 0,
) -> float:
    """Return the gain g at which the log-norm of the gradient does an unbiased walk: g = exp(-<ln z> / 2), eq. 10.

    Weights are drawn with standard deviation g / sqrt(fan_in). For linear, relu and leaky_relu g is exact and needs no
    depth; elsewhere `depth` is needed and g is solve_gain()'s value. formula="paper" gives eq. 13 and 18 as printed.
    Warns with UnsteadyWarning where no gain keeps single networks of that depth together.

    >>> gain("relu", 100), gain("relu", 100, formula="paper")
    (1.43230..., 1.43170...)
    """
    f = activations.activation(activation)
    checks.one_of("gain", "formula", formula, ("exact", "paper"))
    if depth is None and not isinstance(width, Sequence | np.ndarray):
        n = checks.whole("gain", "width", width)
        if formula == "paper":
            return math.exp(-step(f, n, weights=weights, formula="paper").drift / 2)
        if kind(f) != "neutral":
            raise ValueError(f"gain: the gain of {f} depends on depth, which is missing; pass depth=")
        return math.exp(-step(f, n, weights=weights).drift / 2)
    layers = checks.widths("gain", width, depth)
    if formula == "paper":
        return _neutral_gain(f, layers, weights, formula).value
    estimate = solve_gain(f, layers, weights=weights, seed=seed)
    if estimate.kind == "unsteady" and estimate.spread > SERVICEABLE:
        _warn_unsteady(f, layers, weights, estimate, seed)
    return estimate.value


def solve_gain(
    activation: str | Activation,
    width: int | Sequence[int],
    depth: int | None = None,
    *,
    weights: str = "gaussian",
    walks: int | None = None,
    seed: int = 0,
    sampled: bool = False,
) -> GainEstimate:
    """Return the unbiased gain with its standard error, the spread of the final log-norm, and the activation's kind.

    Neutral activations are exact; for the others the exact sampler is solved, always alike for the same seed.
    `sampled` does that for neutral ones too, to check one against the other. With several widths, it is the one gain
    for all layers at which the whole walk is unbiased.

    >>> solve_gain("relu", width=100, depth=200)
    GainEstimate(value=1.43230..., standard_error=0.0, spread=1.61152..., kind='neutral', walks=0)
    """
    f = activations.activation(activation)
    layers = checks.widths("solve_gain", width, depth)
    checks.one_of("solve_gain", "weights", weights, checks.WEIGHTS)
    number = checks.whole("solve_gain", "seed", seed, least=0, most=2**63)
    few = max(100, min(2000, int(_UNITS / sum(layers))))
    count = few if walks is None else checks.whole("solve_gain", "walks", walks, least=8)
    if kind(f) == "neutral" and not sampled:
        return _neutral_gain(f, layers, weights, "exact")
    return _solve(f, layers, weights, count, number)


def max_depth(
    activation: str | Activation,
    width: int,
    spread: float = SERVICEABLE,
    *,
    weights: str = "gaussian",
    seed: int = 0,
) -> float:
    """Return the greatest depth at which the final log-norm at the unbiased gain keeps within that spread.

    Exact for neutral activations, floor(4 spread^2 / variance of a step), infinite where there is no walk at all;
    for the others sampled, to a few percent, and infinite past 100,000.

    >>> max_depth("relu", width=100, spread=1.0)
    77
    """
    f = activations.activation(activation)
    n = checks.whole("max_depth", "width", width)
    limit = checks.positive("max_depth", "spread", spread)
    if kind(f) == "neutral":
        variance = step(f, n, weights=weights).variance
        return math.floor(4 * limit**2 / variance) if variance > 0 else math.inf
    guess, power = (2 * n**0.5, 1.0) if kind(f) == "unsteady" else (1.3 * limit**2 * n, 0.5)
    found = _crossing(lambda depth: solve_gain(f, n, depth, weights=weights, seed=seed).spread, limit, guess, power)
    return math.floor(found) if found < _FARTHEST else math.inf


def min_width(
    activation: str | Activation, depth: int, spread: float = 1.0, *, weights: str = "gaussian", seed: int = 0
) -> int:
    """Return the least width at which the final log-norm at the unbiased gain keeps within that spread.

    Exact for neutral activations; for the others sampled, to a few percent. A ReLU net needs about
    5 depth / (4 spread^2) units.

    >>> min_width("relu", depth=1000, spread=1.0)
    1254
    """
    f = activations.activation(activation)
    layers = checks.whole("min_width", "depth", depth, most=checks.DEEPEST)
    limit = checks.positive("min_width", "spread", spread)
    if kind(f) == "neutral":
        return _last(lambda n: layers * step(f, n, weights=weights).variance > 4 * limit**2) + 1
    found = _crossing(
        lambda n: solve_gain(f, n, layers, weights=weights, seed=seed).spread, limit, layers / limit**2, -0.5
    )
    if found >= _FARTHEST:
        raise ValueError(f"min_width: no width up to {_FARTHEST:,} keeps {f} within spread={limit:g} at depth={layers}")
    return math.ceil(found)


def _neutral_gain(f: Activation, layers: tuple[int, ...], weights: str, formula: str) -> GainEstimate:
    """Return the one gain of all layers; a layer's step is that of its fan-in and, if it widens, of its width."""
    pairs = Counter(pairwise(layers))
    steps = {(n, out): step(f, n, weights=weights, formula=formula, width_out=out) for n, out in pairs}
    depth = len(layers) - 1
    drift = math.fsum(count * steps[pair].drift for pair, count in pairs.items())
    variance = math.fsum(count * steps[pair].variance for pair, count in pairs.items())
    return GainEstimate(math.exp(-drift / depth / 2), 0.0, math.sqrt(variance) / 2, "neutral", 0)


@lru_cache(maxsize=256)
def _solve(f: Activation, layers: tuple[int, ...], weights: str, count: int, seed: int) -> GainEstimate:
    """Find the root of the mean log-norm with a fifth of the walks, then mend it by one step with all of them."""
    depth = len(layers) - 1

    def sample(log_gain: float, walks: int) -> Walks:
        return simulate(f, layers, gain=math.exp(log_gain), walks=walks, rng=seed, weights=weights, every=depth)

    def rough(log_gain: float) -> float:
        return _steadied_mean(sample(log_gain, max(count // 5, 8)))[0]

    low, high = _bracket(rough, -0.5 * math.log(chi(f, 1.0)), f)
    root = float(optimize.brentq(rough, low, high, xtol=0.02 / depth))
    slope = (rough(root + 0.2 / depth) - rough(root - 0.2 / depth)) * depth / 0.4
    walks = sample(root, count)
    mean, error = _steadied_mean(walks)
    value = math.exp(root - mean / slope)
    return GainEstimate(value, value * error / abs(slope), walks.spread, kind(f), count)


def _steadied_mean(walks: Walks) -> tuple[float, float]:
    """Return the mean of the final log-norm and its standard error, less what the luck of the draws explains."""
    rest = walks.final
    if walks.dead == 0:  # drawing layers anew selects, and the luck of those that stay has another mean
        centred = walks.luck - walks.luck.mean(axis=0)
        rest = rest - walks.luck @ np.linalg.lstsq(centred, rest - rest.mean())[0]
    return float(rest.mean()), float(rest.std(ddof=3)) / math.sqrt(len(rest))


def _bracket(mean: Callable[[float], float], start: float, f: Activation) -> tuple[float, float]:
    """Return two logarithms of gains between which the mean log-norm changes its sign, from `start` on."""
    at_start, near, reach = mean(start), start, 0.05
    while reach < 4.0:
        other = start - math.copysign(reach, at_start)
        if mean(other) * at_start <= 0:
            return min(near, other), max(near, other)
        near, reach = other, 2 * reach
    raise ValueError(f"solve_gain: no gain between 1/50 and 50 times that of the slope makes the walk of {f} unbiased")


def _warn_unsteady(f: Activation, layers: tuple[int, ...], weights: str, estimate: GainEstimate, seed: int) -> None:
    depth = max_depth(f, round(sum(layers[:-1]) / (len(layers) - 1)), weights=weights, seed=seed)
    warnings.warn(
        f"gain: {f} is unsteady: at depth {len(layers) - 1} the final log-norm has a spread of "
        f"{estimate.spread:.1f} whatever the gain; the greatest serviceable depth (spread {SERVICEABLE:g}) at this "
        f"width is {depth:.0f}; a scaled activation f(s a) / s with a large s is a remedy",
        UnsteadyWarning,
        stacklevel=3,
    )


def _crossing(spread: Callable[[int], float], limit: float, guess: float, power: float) -> float:
    """Return where the spread crosses the limit, by secants between logarithms; it goes about as that power."""
    at, before = min(max(round(guess), 1), _FARTHEST), None
    for _ in range(12):
        found = spread(at)
        if before is not None:
            local = math.log(found / before[1]) / math.log(at / before[0])
            power = math.copysign(min(max(abs(local), 0.25), 3.0), power)
        factor = min(max((limit / found) ** (1 / power), 0.1), 10.0)  # a first guess may be far off
        nearer = float(min(max(at * factor, 1.0), _FARTHEST))
        if abs(nearer - at) < max(0.02 * at, 0.5) or round(nearer) == at:
            return nearer
        at, before = round(nearer), (at, found)
    return at


def _last(holds: Callable[[int], bool]) -> int:
    """Return the last number from 0 up at which what holds at first still holds."""
    low, high = 0, 1
    while holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low

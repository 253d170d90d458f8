"""How deep a network of a given width can be, and how wide one of a given depth must be, for a given spread."""

import math
from collections.abc import Callable

from gradwalk import activations, checks
from gradwalk.activations import Activation
from gradwalk.checks import Weights
from gradwalk.gains.directions import backward_directions, default_networks
from gradwalk.gains.solve import solve_gain
from gradwalk.theory import kind, step

SERVICEABLE = 2.0  # the largest spread of the final log-norm at which a depth is called serviceable
_FARTHEST = 100_000  # the depth and the width at which searches with the sampler end,
_DEEPEST_DIRECTIONS = 10_000  # and at which those for directions do


class UnsteadyWarning(UserWarning):
    """The mean log-norm is 0 at the gain, but the log-norms of single networks are too far from it to be of use.

    The message has the spread and the largest serviceable depth. To make it an error:
    `warnings.simplefilter("error", gradwalk.UnsteadyWarning)`.
    """


def max_depth(
    activation: str | Activation,
    width: int,
    spread: float = SERVICEABLE,
    *,
    weights: Weights = "gaussian",
    seed: int = 0,
    dropout: float = 0.0,
    directions: float | None = None,
) -> float:
    """Return the largest depth at which the final log-norm at the unbiased gain has at most that spread.

    Exact for neutral activations, floor(4 spread^2 / variance of ln z), and infinite where that variance is 0 (linear
    with orthogonal weights). For the others accurate to a few percent, and infinite above 100,000.

    Args:
        activation: a name such as "tanh" or "leaky_relu(0.2)", or an `Activation`.
        width: units per layer.
        spread: the standard deviation of the final log-norm over networks; the default is called serviceable.
        weights: "gaussian", or "orthogonal" for Haar orthogonal matrices.
        seed: of the sampled walks.
        dropout: the rate of dropout between the activation and the weights of each layer.
        directions: how many directions must pass backward, too (see `gradwalk.directions`); more than 1. Not known with
            dropout. Sampled: the depth is accurate to about a tenth, and infinite above 10,000.

    Returns:
        The number of weight layers, or infinity.

    Raises:
        ValueError: if an argument is out of range, or no activation has that name.
        TypeError: if an argument has the wrong type.

    >>> max_depth("relu", width=100, spread=1.0)
    77
    """
    f = activations.activation(activation)
    n = checks.whole("max_depth", "width", width)
    limit = checks.positive("max_depth", "spread", spread, *checks.SPREAD_RANGE)
    if directions is not None:
        passing = _depth_by_directions(f, n, _passing("max_depth", directions, dropout), weights, seed)
        served = passing < math.inf and _spread(f, n, int(passing), weights, seed) <= limit
        return passing if served else min(passing, max_depth(f, n, limit, weights=weights, seed=seed))
    if kind(f) == "neutral":
        variance = step(f, n, weights=weights, dropout=dropout).variance
        return math.floor(4 * limit**2 / variance) if variance > 0 else math.inf

    def sampled(depth: int) -> float:
        return solve_gain(f, n, depth, weights=weights, seed=seed, dropout=dropout).spread

    guess, power = (2 * n**0.5, 1.0) if kind(f) == "unsteady" else (1.3 * limit**2 * n, 0.5)
    depth = _crossing(sampled, limit, guess, power)
    return math.floor(depth) if depth < _FARTHEST else math.inf


def min_width(
    activation: str | Activation,
    depth: int,
    spread: float = 1.0,
    *,
    weights: Weights = "gaussian",
    seed: int = 0,
    dropout: float = 0.0,
    directions: float | None = None,
) -> int:
    """Return the smallest width at which the final log-norm at the unbiased gain has at most that spread.

    Exact for neutral activations; a ReLU network needs about 5 depth / (4 spread^2) units. For the others
    accurate to a few percent.

    Args:
        activation: a name such as "tanh" or "leaky_relu(0.2)", or an `Activation`.
        depth: the number of weight layers.
        spread: the standard deviation of the final log-norm over networks.
        weights: "gaussian", or "orthogonal" for Haar orthogonal matrices.
        seed: of the sampled walks.
        dropout: the rate of dropout between the activation and the weights of each layer.
        directions: how many directions must pass backward, too (see `gradwalk.directions`); more than 1. Not known with
            dropout.

    Returns:
        Units per layer.

    Raises:
        ValueError: if no width up to 100,000 is enough, an argument is out of range, or no activation has that name.
        TypeError: if an argument has the wrong type.

    >>> min_width("relu", depth=1000, spread=1.0)
    1254
    """
    f = activations.activation(activation)
    layers = checks.whole("min_width", "depth", depth, most=checks.DEEPEST)
    limit = checks.positive("min_width", "spread", spread, *checks.SPREAD_RANGE)
    if directions is not None:
        least = _passing("min_width", directions, dropout)
        by_spread = min_width(f, layers, limit, weights=weights, seed=seed, dropout=dropout)
        return max(by_spread, _width_by_directions(f, layers, least, weights, seed))
    if kind(f) == "neutral":
        return _largest_too_narrow(f, layers, limit, weights, dropout) + 1

    def sampled(width: int) -> float:
        return solve_gain(f, width, layers, weights=weights, seed=seed, dropout=dropout).spread

    width = _crossing(sampled, limit, layers / limit**2, -0.5)
    if width >= _FARTHEST:
        raise ValueError(_too_narrow(f, _FARTHEST, limit, layers))
    return math.ceil(width)


def _passing(where: str, directions: object, dropout: float) -> float:
    """Return how many directions must pass, or raise if that is no number that can be asked for."""
    if dropout:
        raise ValueError(f"{where}: directions are not known with dropout, got dropout={dropout:g}; leave one out")
    least = checks.positive(where, "directions", directions)
    if least <= 1:
        raise ValueError(f"{where}: directions must be more than 1, which always pass, got directions={least:g}")
    return least


def _depth_by_directions(f: Activation, width: int, least: float, weights: Weights, seed: int) -> float:
    """Return the largest depth at which that many directions pass, infinite above 10,000."""

    def beyond_one(depth: int) -> float:
        return max(_directions(f, width, depth, weights, seed) - 1, 1e-3)

    if _directions(f, width, 1, weights, seed) < least:
        return 0
    depth = _crossing(beyond_one, least - 1, width / least, -1.0, _DEEPEST_DIRECTIONS)
    return math.floor(depth) if depth < _DEEPEST_DIRECTIONS else math.inf


def _width_by_directions(f: Activation, depth: int, least: float, weights: Weights, seed: int) -> int:
    """Return the smallest width at which that many directions pass."""

    def beyond_one(width: int) -> float:
        return max(_directions(f, max(width, 3), depth, weights, seed) - 1, 1e-3)

    width = _crossing(beyond_one, least - 1, least * depth, 1.0, _DEEPEST_DIRECTIONS)
    if width >= _DEEPEST_DIRECTIONS:
        raise ValueError(
            f"min_width: no width up to {_DEEPEST_DIRECTIONS:,} lets {least:g} directions pass {depth} layers of {f}; "
            "use weights='orthogonal' or a leak (gradwalk.advise)"
        )
    return max(math.ceil(width), math.ceil(least))


def _spread(f: Activation, width: int, depth: int, weights: Weights, seed: int) -> float:
    """Return the spread of the final log-norm at the unbiased gain; 0 for no layers."""
    return solve_gain(f, width, depth, weights=weights, seed=seed).spread if depth else 0.0


def _directions(f: Activation, width: int, depth: int, weights: Weights, seed: int) -> float:
    """Return how many directions pass backward at the unbiased gain."""
    gain, widths = solve_gain(f, width, depth, weights=weights, seed=seed).value, (width,) * (depth + 1)
    return backward_directions(f, widths, weights, gain, default_networks(widths), seed)[0]


def _largest_too_narrow(f: Activation, depth: int, spread: float, weights: Weights, dropout: float) -> int:
    """Return the largest width at which a neutral activation has more than that spread, 0 if there is none."""

    def too_narrow(width: int) -> bool:
        return depth * step(f, width, weights=weights, dropout=dropout).variance > 4 * spread**2

    if too_narrow(checks.WIDEST):
        raise ValueError(_too_narrow(f, checks.WIDEST, spread, depth))
    return _largest(too_narrow, checks.WIDEST)


def _too_narrow(f: Activation, width: int, spread: float, depth: int) -> str:
    return (
        f"min_width: no width up to {width:,} keeps {f} within spread={spread:g} at depth={depth}; allow a larger "
        "spread or fewer layers"
    )


def unsteady_message(
    activation: str | Activation,
    width: int,
    depth: int,
    *,
    spread: float | None = None,
    weights: Weights = "gaussian",
    seed: int = 0,
    where: str = "",
    dropout: float = 0.0,
) -> str | None:
    """Return a warning if no gain makes an unsteady activation serviceable at that width and depth, else None.

    `spread` is that of the final log-norm at the unbiased gain, if it is already known; a value up to `SERVICEABLE`
    gives None. The message begins with `where`, the name of the function that reports it.

    >>> unsteady_message("tanh", width=50, depth=1000) is None
    True
    """
    f = activations.activation(activation)
    if kind(f) != "unsteady":
        return None
    if spread is None:
        spread = solve_gain(f, width, depth, weights=weights, seed=seed, dropout=dropout).spread
    if spread <= SERVICEABLE:
        return None
    limit = max_depth(f, width, weights=weights, seed=seed, dropout=dropout)
    return (
        f"{where}: " * bool(where) + f"{f} is unsteady: at depth {depth} and width {width} the final log-norm has a "
        f"spread of {spread:.1f} at the best gain; the largest serviceable depth at this width (spread "
        f"{SERVICEABLE:g}) is {limit:.0f}. Use fewer layers, a leak for the depth (leak_for, gradwalk.torch.Leak), or "
        "a scaled activation f(s a) / s with large s (Activation.scaled, gradwalk.torch.Steady)"
    )


def _crossing(
    value_at: Callable[[int], float], limit: float, guess: float, power: float, farthest: int = _FARTHEST
) -> float:
    """Return where a value, roughly a power law, crosses the limit, by the secant method on logarithms."""
    at, before = min(max(round(guess), 1), farthest), None
    for _ in range(12):
        value = value_at(at)
        if before is not None:
            local = math.log(value / before[1]) / math.log(at / before[0])
            power = math.copysign(min(max(abs(local), 0.25), 3.0), power)
        factor = min(max((limit / value) ** (1 / power), 0.1), 10.0)  # a first guess may be far off
        nearer = float(min(max(at * factor, 1.0), farthest))
        if abs(nearer - at) < max(0.02 * at, 0.5) or round(nearer) == at:
            return nearer
        at, before = round(nearer), (at, value)
    return at


def _largest(holds: Callable[[int], bool], most: int) -> int:
    """Return the largest n for which the predicate holds, given that it holds for 0 and up to an n below `most`."""
    low, high = 0, 1
    while holds(high):
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low

"""The step of the walk: mean and variance of ln z, where one layer multiplies |delta|^2 by z at gain 1 (eq. 7)."""

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gradwalk import activations, checks
from gradwalk.activations import Activation, Array
from gradwalk.checks import Formula, Weights
from gradwalk.theory.chi2 import log_chi2, log_chi2_of
from gradwalk.theory.gaussian import flat_share, nodes
from gradwalk.theory.meanfield import kind


class Step(NamedTuple):
    """The drift and the variance of ln z at gain 1; the log-norm changes by ln g + ln(z) / 2 per layer.

    Attributes:
        drift: the mean, ⟨ln z⟩.
        variance: of ln z.
    """

    drift: float
    variance: float


def step(
    activation: str | Activation,
    width: int,
    *,
    weights: Weights = "gaussian",
    q: float | None = None,
    formula: Formula = "exact",
    width_out: int | None = None,
    dropout: float = 0.0,
) -> Step:
    """Return the drift ⟨ln z⟩ and the variance of ln z of one layer at gain 1.

    The unbiased gain is exp(-drift / 2), eq. 10; over D layers the final log-norm has standard deviation
    sqrt(D variance) / 2. Closed forms for linear and relu, quadrature accurate to about 1e-10 for the others. Exact,
    except for orthogonal weights with an activation that is not neutral: there the pre-activations are taken as
    independent, with a relative error of order 1 / width.

    Args:
        activation: a name such as "tanh" or "leaky_relu(0.2)", or an `Activation`.
        width: the fan-in of the layer, N.
        weights: "gaussian", or "orthogonal" for Haar orthogonal matrices.
        q: the variance of the pre-activations, up to 1e8; needed unless the activation is neutral.
        formula: "exact", or "paper" for eq. 12 and 14 (linear) and eq. 16 and 17 (relu) as printed. The variance of
            eq. 14 is that of the log-norm, a quarter of that of ln z.
        width_out: the width of the layer itself, if not `width`. It matters for orthogonal weights alone: those of a
            layer that widens do not preserve the norm of delta.
        dropout: the rate of dropout between the activation and the weights: units are set to 0 with this probability
            and divided by 1 - dropout otherwise. Layers of which no unit is left are not counted.

    Returns:
        Drift and variance.

    Raises:
        ValueError: if an argument is out of range, `q` is missing, no activation has that name, or the paper prints no
            formula for it.

    >>> step("relu", 100)
    Step(drift=-0.71856806..., variance=0.05193999...)
    >>> step("relu", 100, dropout=0.5)
    Step(drift=-0.05739055..., variance=0.12091122...)
    """
    f = activations.activation(activation)
    n = checks.whole("step", "width", width)
    checks.one_of("step", "weights", weights, checks.WEIGHTS)
    rate = checks.rate("step", "dropout", dropout)
    if checks.one_of("step", "formula", formula, checks.FORMULAS) == "paper":
        return _printed(f, n, weights, rate)
    neutral = kind(f) == "neutral"
    if q is None and not neutral:
        raise ValueError(
            f"step: the step of {f} depends on the variance of the pre-activations, which is missing; pass q="
        )
    variance = 1.0 if neutral else checks.positive("step", "q", q, checks.LEAST_Q)
    closed = _built_in(f)
    gaussian = _closed(n, _ACTIVE[closed], rate) if closed in _ACTIVE else _by_quadrature(f, n, variance, rate)
    out = n if width_out is None else checks.whole("step", "width_out", width_out)
    return gaussian if weights == "gaussian" else _orthogonal(gaussian, max(n, out))


@lru_cache(maxsize=1024)
def _linear(n: int) -> Step:
    mean, variance = log_chi2_of(n)
    return Step(mean - math.log(n), variance)


_ACTIVE = {"linear": 1.0, "relu": 0.5}  # the share of units with slope 1, where the others have slope 0


@lru_cache(maxsize=1024)
def _closed(n: int, active: float, dropout: float) -> Step:
    """Return the step if each unit passes with probability active * (1 - dropout), with slope 1 / (1 - dropout)."""
    share = active * (1 - dropout)
    passing = _linear(n) if share == 1 else _some_active(n, share)
    return Step(passing.drift - 2 * math.log1p(-dropout), passing.variance)


def _some_active(n: int, share: float) -> Step:
    """Return the step of n units of which M ~ Binomial(n, share) are active, given that one of them is (eq. 15)."""
    reach = math.ceil(20 * math.sqrt(n))  # 40 standard deviations of M at a share of one half, more at any other
    active = np.arange(max(1, int(n * share) - reach), min(n, int(n * share) + reach) + 1)
    odds = (n - active[:-1]) / (active[:-1] + 1) * (share / (1 - share))
    log_share = np.concatenate([[0.0], np.cumsum(np.log(odds))])  # ln of the distribution of M, up to a constant
    probability = np.exp(log_share - log_share.max())
    probability /= probability.sum()
    means, variances = log_chi2(active)
    mean = float(probability @ means)
    return Step(mean - math.log(n), float(probability @ (variances + (means - mean) ** 2)))


def _built_in(f: Activation) -> str:
    """Return the family of a built-in activation, "" for one of a user's own, whatever its name."""
    return f.family if activations.is_built_in(f) else ""


def _orthogonal(gaussian: Step, n: int) -> Step:
    """Return the step of a Haar orthogonal matrix from that of a Gaussian one; n is the larger of its two dimensions.

    A Gaussian vector is a uniform direction times an independent norm. So the image of delta under a Gaussian matrix
    is that under a Haar matrix times the norm of an independent Gaussian vector of n components.
    """
    norm = _linear(n)
    return Step(gaussian.drift - norm.drift, max(gaussian.variance - norm.variance, 0.0))


def _printed(f: Activation, n: int, weights: Weights, dropout: float) -> Step:
    closed = _built_in(f)
    if weights != "gaussian" or closed not in ("linear", "relu") or dropout:
        described = f"{weights} weights" + f" and dropout={dropout:g}" * bool(dropout)
        raise ValueError(f"step: the paper prints no formula for {f} with {described}; use formula='exact'")
    if closed == "linear":
        return Step(-1 / n, 1 / (2 * n))  # eq. 12 and 14
    return Step(-math.log(2) - 2.4 / (max(n, 6) - 2.4), 5 / (max(n, 6) - 4))  # eq. 16 and 17


@lru_cache(maxsize=1024)
def _by_quadrature(activation: Activation, n: int, q: float, dropout: float) -> Step:
    """Return the step from the Laplace transform of z, a mean of n independent terms f'(a)^2 xi^2.

    With phi(s) = E[(1 + 2 s f'(a)^2)^(-1/2)] and Psi(t) = E[exp(-t z)] = phi(t / n)^n, given that some f'(a) != 0,
        <ln z>     = int (exp(-t) - Psi(t)) / t dt,
        <(ln z)^2> = -2 int ln t (exp(-t) - Psi(t)) / t dt - 2 gamma <ln z>.
    In u = ln t both integrands are analytic on the real line, and the trapezoidal rule converges geometrically.
    Dropout of rate p makes f'(a) 0 with probability p and divides it by 1 - p otherwise.
    """
    finest = 2.0 ** -math.ceil(48 / n)  # narrower features contribute less than 1e-14 to the n-th power
    a, weight, _ = nodes(activation, q, finest)
    slope = np.asarray(activation.derivative(a), dtype=np.float64) / (1 - dropout)
    weight = (1 - dropout) * weight
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        mean_z = float(weight @ slope**2)
        log_slope2 = 2 * np.log(np.abs(slope))  # not ln of the square, which may underflow
    if not 0 < mean_z < math.inf:
        raise ValueError(
            f"step: the derivative of {activation} must be finite and not zero everywhere, but is not at q={q:g}"
        )
    flat = dropout + (1 - dropout) * flat_share(activation, q)
    transform = _transform(log_slope2 - math.log(mean_z), weight, n, flat)
    spacing = 0.25
    first = second = 0.0
    for block in _blocks(spacing, len(weight)):
        gap = np.exp(-np.exp(np.minimum(block, 8.0))) - transform(block)
        first += spacing * float(gap.sum())
        second += spacing * float((block * gap).sum())
        if block[0] > 0 and np.abs(gap[-1]) < 1e-18:
            break
    drift = first + math.log(mean_z)
    return Step(drift, -2 * second - 2 * np.euler_gamma * first - first**2)


def _blocks(spacing: float, nodes: int) -> Iterator[Array]:
    """Yield the points u = ln t, from where exp(-t) and Psi are both 1 upwards, in blocks that limit the memory."""
    length = max(1, min(64, 2_000_000 // nodes))
    for first in range(0, 16_384, length):
        yield -40 + spacing * np.arange(first, first + length)


def _transform(log_slope2: Array, weight: Array, n: int, flat: float) -> Callable[[Array], Array]:
    """Return the function u -> E[exp(-e^u z)], given that not all n units are flat; `flat` is P(f' = 0) of one unit."""
    all_flat = flat**n
    alive = log_slope2 > -math.inf
    log_slope2, weight = log_slope2[alive], weight[alive]

    def transform(u: Array) -> Array:
        log_terms = math.log(2 / n) + u[:, None] + log_slope2
        log_root = -0.5 * np.logaddexp(0.0, log_terms)  # ln (1 + 2 t f'^2 / n)^(-1/2), for any t
        excess = np.exp(log_root) @ weight  # phi minus its limit P(f' = 0), without cancellation
        near_one = np.log1p(np.maximum(np.expm1(log_root) @ weight, -0.9))
        powers = np.exp(n * np.where(excess + flat > 0.5, near_one, np.log(excess + flat)))
        if all_flat > 0:  # where phi is close to its limit, the difference of the powers would cancel
            above = all_flat * np.expm1(np.minimum(n * np.log1p(excess / flat), 1.0))  # used below ln 2 only
            return np.asarray(np.where(powers > 2 * all_flat, powers - all_flat, above) / (1 - all_flat))
        return np.asarray(powers)

    return transform

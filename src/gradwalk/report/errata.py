"""Where the paper's printed text is wrong, and how far its formulas are from the exact values.

Whatever can be computed is computed here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from gradwalk.gains import gain
from gradwalk.nets.widths import autoencoder_widths, classifier_widths, parameter_count
from gradwalk.theory import step

FORMULAS = (("relu", 6), ("relu", 10), ("relu", 100), ("linear", 100))
LAYERS = 1000  # over which the drift of a printed gain is given

_PIXELS, _CLASSES = 784, 10  # of MNIST


@dataclass(frozen=True)
class Erratum:
    """What the paper prints, what is correct, and how that was checked."""

    name: str
    printed: str
    correct: str
    checked: str


@dataclass(frozen=True)
class Distance:
    """A printed gain and the exact one."""

    activation: str
    width: int
    printed: float
    exact: float

    @property
    def drift(self) -> float:
        """The mean log-norm after 1000 layers at the printed gain."""
        return LAYERS * math.log(self.printed / self.exact)


def errata() -> list[Erratum]:
    """Return all errata, E1 first, with their numbers computed."""
    return [
        _variance_of_linear(),
        _drift_of_relu(),
        Erratum("E3", "the ReLU derivative sets 1 − M rows to 0", "N − M rows", "by the definition of M"),
        Erratum(
            "E4",
            "eq. 4: W̃_d(i,j) = f′(a_d(i)) W_d(j,i)",
            "W̃_{d+1}(i,j) = f′(a_d(i)) W_{d+1}(j,i): the derivative is that of the layer which the weights read",
            "by the chain rule",
        ),
        Erratum(
            "E5",
            "the first layer of a net of depth D has the rate λ_{Dmax−D}",
            "γ_{Dmax−D+1}",
            "put d = D − 1 into λ_{D−d} = γ_{Dmax−d}",
        ),
        _width_of_classifier(),
        _widths_of_autoencoder(),
        Erratum(
            "E8",
            "otherwise the elements of W are set to 0",
            "W is dense: a leftover sentence",
            "nothing else in the paper makes W sparse",
        ),
        Erratum("E9", "tanh results agree with Figure 2, upper left panel", "upper right panel", "Figure 2’s caption"),
        Erratum(
            "E10",
            "introduction: the magnitude of the gradient scales as the square root of the depth",
            "the spread of its logarithm does, as the abstract says",
            "eq. 8: ln Z is a sum of D independent steps",
        ),
        _order_of_expansion(),
        Erratum(
            "E12",
            "“Computational Verification”: equations 10 and 18 were good approximations of g over N",
            "equations 13 and 18",
            "eq. 10 is the definition of g",
        ),
    ]


@cache
def distances() -> tuple[Distance, ...]:
    """Return how far eq. 13 and 18 are from the exact gains.

    >>> [round(distance.drift, 2) for distance in distances()]
    [65.32, 4.16, -0.42, -0.02]
    """
    return tuple(Distance(name, n, gain(name, n, formula="paper"), gain(name, n)) for name, n in FORMULAS)


def _variance_of_linear() -> Erratum:
    n = 100
    exact, printed = step("linear", n).variance, step("linear", n, formula="paper").variance
    return Erratum(
        "E1",
        "eq. 14, linear: the variance of ln z is 1/(2N)",
        "trigamma(N/2), about 2/N; 1/(2N) is the variance of a step of ln |δ|, which is half of ln z",
        f"N = {n}: {exact:.5f} for ln z, {exact / 4:.5f} for ln |δ|, {printed:.5f} printed",
    )


def _drift_of_relu() -> Erratum:
    n = 1000
    drift = step("relu", n).drift
    return Erratum(
        "E2",
        "ReLU, leading order: ⟨ln z⟩ = −ln 2 − 2/N",
        "−ln 2 − 2.5/N",
        f"N = {n}: the exact sum over M gives {drift:.5f} = −ln 2 − {-(drift + math.log(2)) * n:.2f}/N",
    )


def _width_of_classifier() -> Erratum:
    printed, limit, depth = 1228, 4e6, 4
    first = classifier_widths(_PIXELS, _CLASSES, depth, limit)
    below = parameter_count((_PIXELS, *[printed] * (depth - 1), _CLASSES))
    deep = classifier_widths(_PIXELS, _CLASSES, 512, limit)[1]
    deepest = classifier_widths(_PIXELS, _CLASSES, 1000, 62e6)[1]
    return Erratum(
        "E6",
        f"MNIST, 4e6 parameters, D = {depth}: N = {printed}",
        "one unit more: N is the first width above the limit",
        f"N = {printed} has {below:,} parameters; the first above the limit is N = {first[1]} with "
        f"{parameter_count(first):,}; D = 512 gives {deep} and D = 1000 gives {deepest}, as printed",
    )


def _widths_of_autoencoder() -> Erratum:
    limit, depth, code = 16e6, 128, 30
    deep, shallow = autoencoder_widths(_PIXELS, depth, limit), autoencoder_widths(_PIXELS, 4, limit)
    return Erratum(
        "E7",
        "auto-encoder, D = 128: 576 567 558 ... 48 39 30 38 48 ... 576 784",
        "no constant increase gives those widths: 576 − 30 is no multiple of 9, and 38 breaks the symmetry. The rule "
        f"as written gives {_evenly_rising(depth, code, 9)}",
        f"an increase of {deep[1] - deep[2]} is the first above the limit, with {parameter_count(deep):,} parameters. "
        f"D = 4 gives {list(shallow[1:])}, as printed",
    )


def _evenly_rising(depth: int, code: int, increase: int) -> str:
    """Return the layer sizes of an auto-encoder with a constant increase away from its code.

    >>> _evenly_rising(128, 30, 9)
    '597 588 ... 48 39 30 39 48 ... 588 597 784'
    """
    top = code + increase * (depth // 2 - 1)
    rising = (code + increase, code + 2 * increase, top - increase, top)
    low, next_low, next_high, high = rising
    return f"{high} {next_high} ... {next_low} {low} {code} {low} {next_low} ... {next_high} {high} {_PIXELS}"


def _order_of_expansion() -> Erratum:
    n = 10
    exact, first, second = step("linear", n).drift, -1 / n, -1 / n - 1 / (3 * n**2)
    return Erratum(
        "E11",
        "the first-order expressions are more accurate than those with terms of order 1/N²",
        "the second order is more accurate: ⟨ln z⟩ = −1/N − 1/(3N²) for a linear net",
        f"N = {n}: exact {exact:.5f}, first order {first:.5f}, second order {second:.5f}",
    )

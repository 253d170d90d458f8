"""Where the paper's printed text is wrong, E1 to E9, and how far its formulas lie from the exact values.

What can be computed is computed here, not typed in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from gradwalk.gains import gain
from gradwalk.theory import step

FORMULAS = (("relu", 6), ("relu", 10), ("relu", 100), ("linear", 100))
LAYERS = 1000  # over which the drift of a printed gain is told

_PIXELS, _CLASSES = 784, 10  # of MNIST


@dataclass(frozen=True)
class Erratum:
    """What the paper prints, what is right, and how that was checked."""

    id: str
    printed: str
    right: str
    checked: str


@dataclass(frozen=True)
class Distance:
    """How far a printed gain lies from the exact one, and what that adds to the log-norm over 1000 layers."""

    activation: str
    width: int
    printed: float
    exact: float

    @property
    def drift(self) -> float:
        """The mean log-norm after 1000 layers at the printed gain."""
        return LAYERS * math.log(self.printed / self.exact)


def errata() -> list[Erratum]:
    """Return the nine errata, with their numbers computed."""
    return [
        _variance_of_linear(),
        _drift_of_relu(),
        Erratum("E3", "the ReLU derivative sets 1 − M rows to 0", "N − M rows", "by definition of M"),
        Erratum(
            "E4",
            "eq. 4: W̃_d(i,j) = f′(a_d(i)) W_d(j,i)",
            "W̃_{d+1}(i,j) = f′(a_d(i)) W_{d+1}(j,i): the derivative is that of the layer which the weights read",
            "by the chain rule",
        ),
        Erratum(
            "E5",
            "the first layer of a net of depth D gets the rate λ_{Dmax−D}",
            "γ_{Dmax−D+1}",
            "put d = D − 1 into λ_{D−d} = γ_{Dmax−d}",
        ),
        _width_of_classifier(),
        _widths_of_autoencoder(),
        Erratum(
            "E8", "otherwise the elements of W are set to 0", "nothing: W is dense", "nothing else makes it sparse"
        ),
        Erratum("E9", "tanh results agree with Figure 2, upper left panel", "upper right panel", "Figure 2's caption"),
    ]


def distances() -> list[Distance]:
    """Return how far eq. 13 and 18 lie from the exact gains.

    >>> [round(each.drift, 2) for each in distances()]
    [65.32, 4.16, -0.42, -0.02]
    """
    return [Distance(name, n, gain(name, n, formula="paper"), gain(name, n)) for name, n in FORMULAS]


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

    def counted() -> str:
        from gradwalk.nets.widths import classifier_widths, parameter_count

        first = classifier_widths(_PIXELS, _CLASSES, depth, limit)
        below = parameter_count((_PIXELS, *[printed] * (depth - 1), _CLASSES))
        deep = classifier_widths(_PIXELS, _CLASSES, 512, limit)[1]
        deepest = classifier_widths(_PIXELS, _CLASSES, 1000, 62e6)[1]
        return (
            f"N = {printed} has {below:,} parameters; the first above the limit is N = {first[1]} with "
            f"{parameter_count(first):,}; D = 512 gives {deep} and D = 1000 gives {deepest}, as printed"
        )

    right = "one unit more: N is the first width above the limit"
    return Erratum("E6", f"MNIST, 4e6 parameters, D = {depth}: N = {printed}", right, _if_torch(counted))


def _widths_of_autoencoder() -> Erratum:
    limit = 16e6

    def counted() -> str:
        from gradwalk.nets.widths import autoencoder_widths, parameter_count

        deep, shallow = autoencoder_widths(_PIXELS, 128, limit), autoencoder_widths(_PIXELS, 4, limit)
        return (
            f"the widest layer has {max(deep[1:-1])} units, {parameter_count(deep):,} parameters in all; D = 4 gives "
            f"{list(shallow[1:])}, as printed"
        )

    return Erratum(
        "E7",
        "auto-encoder, D = 128: 576 567 558 ... 48 39 30 38 48 ... 576 784",
        "no constant increase gives those; evenly spaced and rounded widths, the first above the limit",
        _if_torch(counted),
    )


def _if_torch(counted: Callable[[], str]) -> str:
    """Return what was counted with `gradwalk.nets`, or that it takes PyTorch to count it."""
    try:
        return counted()
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return "counted where PyTorch is installed: pip install 'gradwalk[torch]'"

"""The widths of the layers by the paper's rule, from the depth and a limit on the number of parameters (section 3.2).

All weights and biases count, including those of the first and the last layer. The rule takes the smallest network
*above* the limit. Two numbers in the paper do not follow from it: at 4e6 parameters and D=4 it prints N=1228, which is
below the limit, where the smallest above it is N=1229 (erratum E6); and the widths of its auto-encoder of D=128 do not
increase by a constant, as its rule demands (E7).
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise

from gradwalk import checks

CODE = 30  # units of the auto-encoder's code layer, which are linear


def parameter_count(widths: Sequence[int]) -> int:
    """Return the number of weights and biases of a network with these widths, input first.

    >>> parameter_count([784, 88, 10])
    69970
    """
    return sum((fan_in + 1) * fan_out for fan_in, fan_out in pairwise(widths))


def layer_flops(widths: Sequence[int], batch: int) -> float:
    """Return the floating-point operations of one product of an average layer, for one network.

    >>> layer_flops([10, 10, 10], 50)
    11000.0
    """
    return 2.0 * batch * parameter_count(widths) / (len(widths) - 1)


def classifier_widths(inputs: int, classes: int, depth: int, params: float) -> tuple[int, ...]:
    """Return the depth + 1 widths, input first, of the narrowest network of constant width above `params` parameters.

    >>> classifier_widths(784, 10, 512, 4e6)[1], classifier_widths(784, 10, 1000, 62e6)[1]
    (88, 249)
    """
    depth, limit = _checked("classifier_widths", inputs, classes, depth, params)
    return _classifier_widths(inputs, classes, depth, limit)


@lru_cache(maxsize=64)  # a sweep asks for the same ones once per run
def _classifier_widths(inputs: int, classes: int, depth: int, limit: float) -> tuple[int, ...]:
    hidden = depth - 1

    def widths(width: int) -> tuple[int, ...]:
        return (inputs, *[width] * hidden, classes)

    return widths(_first_above("classifier_widths", limit, 1, widths))


def autoencoder_widths(inputs: int, depth: int, params: float, code: int = CODE) -> tuple[int, ...]:
    """Return the depth + 1 widths, input first, of an auto-encoder whose widths increase by a constant from its code.

    Layer depth/2 is the code, and the last layer has as many units as there are inputs. The increase is the smallest
    integer with which the network exceeds `params` parameters.

    >>> autoencoder_widths(784, 4, 16e6), autoencoder_widths(784, 128, 16e6)[1:4]
    ((784, 9816, 30, 9816, 784), (597, 588, 579))
    """
    depth, limit = _checked("autoencoder_widths", inputs, inputs, depth, params)
    checks.whole("autoencoder_widths", "code", code)
    if depth % 2 or depth < 4:
        raise ValueError(f"autoencoder_widths: depth must be even and at least 4, got depth={depth}")

    def widths(increase: int) -> tuple[int, ...]:
        rising = [code + increase * distance for distance in range(1, depth // 2)]
        return (inputs, *rising[::-1], code, *rising, inputs)

    return widths(_first_above("autoencoder_widths", limit, 0, widths))


def _checked(where: str, inputs: int, outputs: int, depth: int, params: float) -> tuple[int, float]:
    checks.whole(where, "inputs", inputs)
    checks.whole(where, "outputs", outputs)
    return checks.whole(where, "depth", depth, least=2, most=100_000), checks.positive(
        where, "params", params, most=1e11
    )


def _first_above(where: str, limit: float, least: int, widths: Callable[[int], tuple[int, ...]]) -> int:
    """Return the smallest number whose widths have more parameters than the limit, by bisection."""
    smallest = parameter_count(widths(least))
    if smallest > limit:
        raise ValueError(
            f"{where}: params must be at least {smallest - 1:,}, the limit for the narrowest network of this depth, "
            f"got params={limit:,.0f}"
        )
    low, high = least, max(1, 2 * least)
    while parameter_count(widths(high)) <= limit:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if parameter_count(widths(middle)) > limit else (middle, high)
    return high

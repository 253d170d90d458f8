"""The gains of a network's layers: the paper's g_1, g and g_D (section 3.1)."""

from collections.abc import Sequence
from typing import NamedTuple

from gradwalk.activations import Activation
from gradwalk.checks import Weights
from gradwalk.gains import gain as unbiased_gain


class Gains(NamedTuple):
    """The gains of the first layer (the paper's g_1), of the layers between (g) and of the last (g_D)."""

    gain_in: float
    gain: float
    gain_out: float

    def layers(self, depth: int) -> list[float]:
        """Return the gain of each layer, input first.

        >>> Gains(1.0, 1.4, 1.2).layers(4)
        [1.0, 1.4, 1.4, 1.2]
        """
        return [self.gain_in, *[self.gain] * (depth - 2), self.gain_out]


def default_gains(
    activation: Activation, widths: Sequence[int], weights: Weights = "gaussian", gain: float | None = None
) -> Gains:
    """Return gain 1 for the first layer, and the unbiased gain, or the one given, for the layers after it.

    The first layer reads inputs of unit variance, and no gradient walks through it. The unbiased gain is that of the
    widths that the gradient walks over, from the last hidden layer down to the first, as if all of them had this
    activation.

    >>> from gradwalk.activations import activation
    >>> default_gains(activation("relu"), (784, 100, 100, 100, 10)).gain
    1.43230
    """
    if gain is None:
        hidden = widths[1:-1]
        if len(set(hidden)) == 1:  # one width: the walk may end in any number of outputs
            gain = unbiased_gain(activation, hidden[0], len(hidden), weights=weights)
        else:
            gain = unbiased_gain(activation, widths[1:], weights=weights)
    return Gains(1.0, gain, gain)

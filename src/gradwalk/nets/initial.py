"""The weights a network begins with: drawn from its own seed alone, scaled by g_1, g and g_D (section 3.1)."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch

from gradwalk import checks
from gradwalk.activations import Activation
from gradwalk.gains import gain as unbiased_gain
from gradwalk.torch.init import random_walk_

PEERS = ("torch", "xavier", "kaiming", "plain-orthogonal", "lsuv")  # initialisers that know nothing of the walk
SCHEMES = (*checks.WEIGHTS, *PEERS)


class Gains(NamedTuple):
    """The gains of the first layer (the paper's g_1), of the layers between (g) and of the last (g_D)."""

    gain_in: float
    gain: float
    gain_out: float

    def layers(self, depth: int) -> list[float]:
        """Return the gain of each layer, input first."""
        return [self.gain_in, *[self.gain] * (depth - 2), self.gain_out]


def default_gains(
    activation: Activation, widths: Sequence[int], weights: str = "gaussian", gain: float | None = None
) -> Gains:
    """Return g_1 = 1 and the unbiased g, or the one given, for all layers that read an activation.

    The first layer reads inputs of unit variance, and no gradient walks through it. g is solved for the widths that
    the gradient walks over, from the last hidden layer down to the first, as if all of them had this activation.

    >>> from gradwalk.activations import activation
    >>> default_gains(activation("relu"), (784, 100, 100, 100, 10)).gain
    1.43230
    """
    if gain is None:
        kind = checks.one_of("default_gains", "weights", weights, checks.WEIGHTS)
        hidden = widths[1:-1]
        if len(set(hidden)) == 1:  # one width: the walk may end in any number of outputs
            gain = unbiased_gain(activation, hidden[0], len(hidden), weights=kind)
        else:
            gain = unbiased_gain(activation, widths[1:], weights=kind)
    return Gains(1.0, gain, gain)


def initial_weights(
    widths: Sequence[int], gains: Gains, seed: int, weights: str = "gaussian", device: str = "cpu"
) -> Iterator[torch.Tensor]:
    """Yield the weights (in, out) of each layer, of standard deviation g / sqrt(in), input first.

    They are drawn on the CPU whatever the device, so that a seed means the same weights everywhere; and one by one, so
    that they need not exist twice while a stack is filled.

    >>> [tuple(w.shape) for w in initial_weights((4, 3, 2), Gains(1.0, 1.0, 1.0), seed=0)]
    [(4, 3), (3, 2)]
    """
    kind = checks.one_of("initial_weights", "weights", weights, checks.WEIGHTS)
    generator = torch.Generator().manual_seed(seed)
    for (fan_in, fan_out), gain in zip(pairwise(widths), gains.layers(len(widths) - 1), strict=True):
        weight = random_walk_(torch.empty(fan_out, fan_in), gain=gain, weights=kind, generator=generator)
        yield weight.T.to(device)

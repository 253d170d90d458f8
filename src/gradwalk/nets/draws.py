"""Initial weights as they are drawn: the random walk's own, and those of any initialiser, layer by layer."""

from collections.abc import Iterator, Sequence

import torch

from gradwalk.checks import Weights
from gradwalk.nets.blueprint import Blueprint, Layer
from gradwalk.nets.gains import Gains
from gradwalk.nets.initialisers import INITIALISERS
from gradwalk.torch import random_walk_


def random_walk(weights: Weights, network: Blueprint) -> Iterator[Layer]:
    """Yield weights of standard deviation g / sqrt(in) and biases of 0, as users draw them for their own tensors."""
    assert network.gains is not None
    gains = network.gains.layers(len(network.activations))
    for (fan_in, fan_out), gain in zip(network.shapes, gains, strict=True):
        tensor = torch.empty(fan_out, fan_in)
        weight = random_walk_(tensor, gain=gain, weights=weights, generator=network.generator)
        yield weight.T, torch.zeros(fan_out)


def initial_layers(
    weights: str,
    widths: Sequence[int],
    activations: Sequence[str],
    seed: int,
    *,
    gains: Gains | None = None,
    inputs: torch.Tensor | None = None,
    device: str = "cpu",
) -> Iterator[Layer]:
    """Return an iterator over weights (in, out) and biases (out,) of each layer, input first.

    gains: for the initialisers that take them, and only for those. They are drawn on the CPU whatever the device, so
    that a seed gives the same weights everywhere; and one by one, so that a stack can be filled without holding them
    twice.

    >>> layers = initial_layers("kaiming", (4, 3, 2), ("relu", "linear"), seed=0)
    >>> [tuple(weight.shape) for weight, bias in layers]
    [(4, 3), (3, 2)]
    """
    initialiser = INITIALISERS.find(weights, "initial_layers")
    if initialiser.takes_gain != (gains is not None):
        rule = "needs gains" if initialiser.takes_gain else "has a scale of its own and takes no gains"
        raise ValueError(f"initial_layers: {weights!r} {rule}, got gains={gains}")
    generator = torch.Generator().manual_seed(seed)
    network = Blueprint(tuple(widths), tuple(activations), generator, gains, inputs)
    return ((weight.to(device), bias.to(device)) for weight, bias in initialiser.draw(network))

"""Initialisers: the random walk's own, and others to compare it with, each one record in one registry.

A new one is a function that yields the layers of a network, registered from anywhere:

>>> def small(network):
...     for fan_in, fan_out in network.shapes:
...         yield 0.01 * torch.randn(fan_in, fan_out, generator=network.generator), torch.zeros(fan_out)
>>> INITIALISERS.register(Initialiser("small", small, title="N(0, 0.01)")).takes_gain
False

The walks are drawn by `gradwalk.torch.random_walk_`, the function that users call on their own tensors.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from gradwalk.checks import Weights
from gradwalk.nets import peers
from gradwalk.nets.blueprint import Blueprint, Layer
from gradwalk.nets.gains import Gains
from gradwalk.registry import Registry
from gradwalk.torch import random_walk_


@dataclass(frozen=True)
class Initialiser:
    """A way to draw the initial weights of a network.

    name: what runs call it in `weights`. draw: yields weights (in, out) and biases (out,) of each layer, input first.
    title: as figures show it, the name if not given. walk: the kind of weights whose unbiased gain it takes by default;
    None for an initialiser that has a scale of its own and takes no gain.
    """

    name: str
    draw: Callable[[Blueprint], Iterator[Layer]]
    title: str = ""
    walk: Weights | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", self.title or self.name)

    @property
    def takes_gain(self) -> bool:
        """Whether its weights are scaled by the gains of a run."""
        return self.walk is not None


def _random_walk(weights: Weights, network: Blueprint) -> Iterator[Layer]:
    """Yield weights of standard deviation g / sqrt(in) and biases of 0."""
    assert network.gains is not None
    gains = network.gains.layers(len(network.activations))
    for (fan_in, fan_out), gain in zip(network.shapes, gains, strict=True):
        tensor = torch.empty(fan_out, fan_in)
        weight = random_walk_(tensor, gain=gain, weights=weights, generator=network.generator)
        yield weight.T, torch.zeros(fan_out)


INITIALISERS = Registry(
    "initialiser",
    [
        Initialiser("gaussian", partial(_random_walk, "gaussian"), "random walk, Gaussian", "gaussian"),
        Initialiser("orthogonal", partial(_random_walk, "orthogonal"), "random walk, orthogonal", "orthogonal"),
        Initialiser("torch", peers.torch_default, "torch default"),
        Initialiser("xavier", peers.xavier, "Xavier"),
        Initialiser("kaiming", peers.kaiming, "Kaiming"),
        Initialiser("plain-orthogonal", peers.plain_orthogonal, "orthogonal"),
        Initialiser("lsuv", peers.lsuv, "LSUV"),
    ],
)


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

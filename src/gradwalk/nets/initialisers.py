"""Initialisers: the random walk's own, and others to compare it with, each one record in one registry.

A new one is a function that yields the layers of a network, registered from anywhere:

>>> import torch
>>> def small(network):
...     for fan_in, fan_out in network.shapes:
...         yield 0.01 * torch.randn(fan_in, fan_out, generator=network.generator), torch.zeros(fan_out)
>>> INITIALISERS.register(Initialiser("small", small, title="N(0, 0.01)")).takes_gain
False

The registry can be read without torch; the functions that draw are in `gradwalk.nets.draws` and `gradwalk.nets.peers`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from gradwalk.checks import Weights
from gradwalk.nets.blueprint import Blueprint, Layer
from gradwalk.registry import Registry


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


def _walk(weights: Weights, network: Blueprint) -> Iterator[Layer]:
    from gradwalk.nets import draws

    return draws.random_walk(weights, network)


def _peer(name: str, network: Blueprint) -> Iterator[Layer]:
    from gradwalk.nets import peers

    return peers.DRAWS[name](network)


INITIALISERS = Registry(
    "initialiser",
    [
        Initialiser("gaussian", partial(_walk, "gaussian"), "random walk, Gaussian", "gaussian"),
        Initialiser("orthogonal", partial(_walk, "orthogonal"), "random walk, orthogonal", "orthogonal"),
        Initialiser("torch", partial(_peer, "torch"), "torch default"),
        Initialiser("xavier", partial(_peer, "xavier"), "Xavier"),
        Initialiser("kaiming", partial(_peer, "kaiming"), "Kaiming"),
        Initialiser("plain-orthogonal", partial(_peer, "plain-orthogonal"), "orthogonal"),
        Initialiser("lsuv", partial(_peer, "lsuv"), "LSUV"),
    ],
)

"""The weights that other initialisers give a network, to set beside the random walk's: the same call for every layer.

Each draws from the network's own seed alone. Where torch knows a gain for the activation (`nn.init.calculate_gain`), it
is used; elsewhere the default of the initialiser itself, as whoever calls it without a gain gets it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import torch
from torch import nn

from gradwalk.activations import activation
from gradwalk.torch.elementwise import through_numpy

Layer = tuple[torch.Tensor, torch.Tensor]


def peer_layers(
    scheme: str, widths: Sequence[int], activations: Sequence[str], seed: int, x: torch.Tensor, device: str = "cpu"
) -> Iterator[Layer]:
    """Yield the weights (in, out) and the biases of each layer, input first, as one of `initial.PEERS` draws them.

    activations: one a layer. x: examples (rows, in), which only "lsuv" looks at.

    >>> [weight.shape[1] for weight, _ in peer_layers("xavier", (4, 3, 2), ("relu", "linear"), 0, torch.empty(0, 4))]
    [3, 2]
    """
    generator = torch.Generator().manual_seed(seed)
    if scheme == "torch":
        drawn = _as_linear(widths, generator)
    elif scheme == "lsuv":
        drawn = _unit_variance(widths, activations, x, generator)
    else:
        drawn = _normal(scheme, widths, activations[0], generator)
    for weight, bias in drawn:
        yield weight.T.to(device), bias.to(device)


def known_gain(name: str, default: float) -> float:
    """Return torch's gain for an activation, `default` where it has none.

    >>> known_gain("tanh", 1.0), known_gain("gelu", 1.0), round(known_gain("leaky_relu(1)", 0.0), 3)
    (1.6666666666666667, 1.0, 1.0)
    """
    family, _, parameter = name.rstrip(")").partition("(")
    try:
        return nn.init.calculate_gain(family, float(parameter) if parameter else None)  # type: ignore[arg-type]
    except ValueError:
        return default


def _as_linear(widths: Sequence[int], generator: torch.Generator) -> Iterator[Layer]:
    """What `nn.Linear` does: weights and biases alike between -1/sqrt(in) and 1/sqrt(in)."""
    for fan_in, fan_out in pairwise(widths):
        weight = nn.init.kaiming_uniform_(torch.empty(fan_out, fan_in), a=math.sqrt(5), generator=generator)
        bound = 1 / math.sqrt(fan_in)
        yield weight, torch.empty(fan_out).uniform_(-bound, bound, generator=generator)


def _normal(scheme: str, widths: Sequence[int], name: str, generator: torch.Generator) -> Iterator[Layer]:
    fill, default = _FILLS[scheme]
    gain = known_gain(name, default)
    for fan_in, fan_out in pairwise(widths):
        yield fill(torch.empty(fan_out, fan_in), gain, generator), torch.zeros(fan_out)


def _unit_variance(
    widths: Sequence[int], activations: Sequence[str], x: torch.Tensor, generator: torch.Generator
) -> Iterator[Layer]:
    """LSUV (Mishkin and Matas 2015): orthonormal weights, divided layer by layer by what they make of some examples.

    A layer without biases is linear in its weights, so that one division does what their loop does. It is done in
    double precision, whose last bits may depend on the number of threads: those of the weights then do not.
    """
    h = x.double()
    for (fan_in, fan_out), name in zip(pairwise(widths), activations, strict=True):
        weight = nn.init.orthogonal_(torch.empty(fan_out, fan_in), generator=generator).double()
        a = h @ weight.T
        spread = a.std(correction=0)
        yield (weight / spread).float(), torch.zeros(fan_out)
        h = through_numpy(activation(name).f, a / spread)


def _xavier(tensor: torch.Tensor, gain: float, generator: torch.Generator) -> torch.Tensor:
    return nn.init.xavier_normal_(tensor, gain, generator)


def _kaiming(tensor: torch.Tensor, gain: float, generator: torch.Generator) -> torch.Tensor:
    return nn.init.normal_(tensor, std=gain / math.sqrt(tensor.shape[1]), generator=generator)


def _orthogonal(tensor: torch.Tensor, gain: float, generator: torch.Generator) -> torch.Tensor:
    return nn.init.orthogonal_(tensor, gain, generator)


# What fills a layer, and the gain it has if it is called without one.
_FILLS: dict[str, tuple[Callable[[torch.Tensor, float, torch.Generator], torch.Tensor], float]] = {
    "xavier": (_xavier, 1.0),
    "kaiming": (_kaiming, math.sqrt(2)),
    "plain-orthogonal": (_orthogonal, 1.0),
}

"""The weights that other initialisers give a network, to compare with those of the random walk.

Where torch knows a gain for the activation (`nn.init.calculate_gain`), it is used; elsewhere the default of the
initialiser itself, which is what a user gets who calls it without a gain.
"""

import math
from collections.abc import Callable, Iterator

import torch
from torch import nn

from gradwalk.activations import activation
from gradwalk.nets.blueprint import Blueprint, Layer
from gradwalk.torch.elementwise import through_numpy

Fill = Callable[[torch.Tensor, float, torch.Generator], torch.Tensor]


def torch_default(network: Blueprint) -> Iterator[Layer]:
    """Yield what `nn.Linear` draws: weights and biases uniform between -1/sqrt(in) and 1/sqrt(in)."""
    generator = network.generator
    for fan_in, fan_out in network.shapes:
        weight = nn.init.kaiming_uniform_(torch.empty(fan_out, fan_in), a=math.sqrt(5), generator=generator)
        bound = 1 / math.sqrt(fan_in)
        yield weight.T, torch.empty(fan_out).uniform_(-bound, bound, generator=generator)


def xavier(network: Blueprint) -> Iterator[Layer]:
    """Yield normal weights of variance 2 gain^2 / (in + out), as `nn.init.xavier_normal_` draws them."""
    return _filled(nn.init.xavier_normal_, 1.0, network)


def kaiming(network: Blueprint) -> Iterator[Layer]:
    """Yield normal weights of variance gain^2 / in, as `nn.init.kaiming_normal_` draws them."""
    return _filled(_kaiming_normal_, math.sqrt(2), network)


def plain_orthogonal(network: Blueprint) -> Iterator[Layer]:
    """Yield orthogonal weights whose singular values are the gain, as `nn.init.orthogonal_` draws them."""
    return _filled(nn.init.orthogonal_, 1.0, network)


def lsuv(network: Blueprint) -> Iterator[Layer]:
    """Yield the weights of LSUV (Mishkin and Matas 2015): orthonormal, then scaled to unit variance on some inputs.

    A layer without biases is linear in its weights, so that one division replaces their loop. It is computed in double
    precision: the last bits there may depend on the number of threads, those of the weights then do not.
    """
    if network.inputs is None:
        raise ValueError("lsuv: inputs must be a batch of examples, got inputs=None")
    h = network.inputs.double()
    for (fan_in, fan_out), name in zip(network.shapes, network.activations, strict=True):
        weight = nn.init.orthogonal_(torch.empty(fan_out, fan_in), generator=network.generator).double()
        a = h @ weight.T
        spread = a.std(correction=0)
        yield (weight / spread).float().T, torch.zeros(fan_out)
        h = through_numpy(activation(name).f, a / spread)


DRAWS = {
    "torch": torch_default,
    "xavier": xavier,
    "kaiming": kaiming,
    "plain-orthogonal": plain_orthogonal,
    "lsuv": lsuv,
}


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


def _filled(fill_: Fill, default: float, network: Blueprint) -> Iterator[Layer]:
    gain = known_gain(network.activations[0], default)
    for fan_in, fan_out in network.shapes:
        yield fill_(torch.empty(fan_out, fan_in), gain, network.generator).T, torch.zeros(fan_out)


def _kaiming_normal_(tensor: torch.Tensor, gain: float, generator: torch.Generator) -> torch.Tensor:
    return nn.init.normal_(tensor, std=gain / math.sqrt(tensor.shape[1]), generator=generator)

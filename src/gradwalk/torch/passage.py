"""The passage of gradients through the dense layers of a model, for which the directions that pass are predicted."""

from collections.abc import Sequence

import torch
from torch import nn

from gradwalk.activations import Activation
from gradwalk.checks import Weights
from gradwalk.gains import Passage

_LARGEST = 200_000  # units of all layers together, above which sampling would take long
_LEAST_UNITS = 3  # of a layer, that directions can be sampled for
_ALIKE = 0.9  # above this evenness of the squared singular values, weights count as orthogonal


def passage(
    modules: Sequence[nn.Module], reads: Sequence[Activation | None], gains: Sequence[float], weights: Weights | None
) -> Passage | None:
    """Return the passage from the output of the last layer back to that of the first.

    reads and gains have one entry per layer. weights: None for what the weights as they are look like. None is returned
    for layers that are not dense, do not all read the same activation, are too many to sample, or are zero.
    """
    if len(modules) < _LEAST_UNITS or not all(isinstance(module, nn.Linear) for module in modules):
        return None
    widths = tuple(int(module.out_features) for module in modules if isinstance(module, nn.Linear))
    if widths[-1] < _LEAST_UNITS:  # a scalar output: the passage ends at the layer before it
        widths, reads, gains = widths[:-1], reads[:-1], gains[:-1]
    f = reads[1]
    if f is None or any(each != f for each in reads[1:]) or min(widths) < _LEAST_UNITS or sum(widths) > _LARGEST:
        return None
    if not all(0 < gain < float("inf") for gain in gains[1:]):
        return None
    kind = weights or weights_like(modules[len(modules) // 2])
    return Passage(f, widths, tuple(map(float, gains[1:])), kind)


def weights_like(module: nn.Module) -> Weights:
    """Return whether the weights of a layer look orthogonal or like independent draws, by their singular values.

    >>> weights_like(nn.utils.parametrizations.orthogonal(nn.Linear(8, 8))), weights_like(nn.Linear(64, 64))
    ('orthogonal', 'gaussian')
    """
    weight = module.weight
    assert isinstance(weight, torch.Tensor)
    matrix = weight.detach().double()
    gram = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    evenness = float(gram.trace() ** 2 / (len(gram) * gram.square().sum()))
    return "orthogonal" if evenness > _ALIKE else "gaussian"

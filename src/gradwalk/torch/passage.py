"""The passage of gradients through the dense layers of a model, for which the directions that pass are predicted."""

from collections.abc import Sequence

import torch
from torch import nn

from gradwalk.activations import Activation
from gradwalk.checks import Weights
from gradwalk.gains import Passage

_LEAST_LAYERS = 3
_ALIKE = 0.2  # share of the unevenness of independent draws up to which weights count as orthogonal
_PROBES = 32  # random vectors that stand for all directions of a wider layer


def passage(
    modules: Sequence[nn.Module], reads: Sequence[Activation | None], gains: Sequence[float], weights: Weights | None
) -> Passage | None:
    """Return the passage from the output of the last layer back to that of the first.

    reads and gains have one entry per layer. weights: None for what the weights as they are look like. None is returned
    for layers that are not dense, do not all read the same activation, are too many to sample, or are zero.
    """
    widths = [int(module.out_features) for module in modules if isinstance(module, nn.Linear)]
    if len(modules) < _LEAST_LAYERS or len(widths) < len(modules):
        return None
    return Passage.through(widths, reads, gains, lambda: weights or weights_like(modules[len(modules) // 2]))


def weights_like(module: nn.Module) -> Weights:
    """Return whether the weights of a layer look orthogonal or like independent draws, by their singular values.

    >>> weights_like(nn.utils.parametrizations.orthogonal(nn.Linear(8, 8))), weights_like(nn.Linear(64, 64))
    ('orthogonal', 'gaussian')
    """
    weight = module.weight
    assert isinstance(weight, torch.Tensor)
    matrix = weight.detach().double()
    rows = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    if len(rows) <= _PROBES:
        squares = (rows @ rows.T).square().sum()
    else:  # the sum of the squares of W W^T from its products with some random vectors
        signs = torch.randint(2, (len(rows), _PROBES), generator=torch.Generator().manual_seed(0)).to(rows) * 2 - 1
        squares = (rows @ (rows.T @ signs)).square().sum() / _PROBES
    uneven = 1 - float(rows.square().sum() ** 2 / (len(rows) * squares))  # of the squared singular values
    return "orthogonal" if uneven < _ALIKE * len(rows) / sum(rows.shape) else "gaussian"

"""The law of one step of a walk, given the forward pass and the gradient above it.

A dense layer a = W h takes delta' back to v = W^T delta'. Given a, the part of v along h is known and the rest is
random: v = h (a . delta') / |h|^2 + (I - h h^T / |h|^2) xi |delta'| sigma for Gaussian weights, where sigma is their
root mean square, and a vector uniform on a sphere for orthogonal ones. The gradient below is s * v with the slopes s
that the activation has for this example, so that mean and variance of |delta|^2 follow from a few sums over the units.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.linalg import vecdot, vector_norm

from gradwalk.torch.norms import doubled

MOST = 64  # examples that are compared with one another: the time grows with their square
_SHARPEST = 1e9  # above this shape parameter a gamma variate is constant to all digits that matter


class Law(NamedTuple):
    """Mean and variance of ln(|delta_d| / |delta_(d+1)|) per example, and the variance of their mean over the batch.

    alike: the mean squared cosine between the gradients of two examples.
    """

    mean: Tensor
    variance: Tensor
    pooled: Tensor
    alike: Tensor


def dense_law(h: Tensor, a: Tensor, delta: Tensor, slopes: Tensor, mean_square: Tensor, orthogonal: Tensor) -> Law:
    """Return the law of the step through dense layers; the dimensions are layer, example, unit.

    h: inputs; a: outputs without bias; delta: gradients at the outputs; slopes: what the input's gradient is multiplied
    with; mean_square: of the weights, per layer; orthogonal: whether they are, per layer. All but these two
    are overwritten. The logarithm of |delta|^2 is taken as that of a gamma variate of the same mean and variance, or of
    a beta variate for orthogonal weights, which is nearly exact for linear and ReLU units.
    """
    n, size, unit = h.shape[-1], mean_square[:, None], _unit(delta)
    through, steep = doubled(h).square_(), doubled(slopes).square_()
    length, total, root4 = through.sum(-1).clamp(min=1e-300), steep.sum(-1), vector_norm(steep, dim=-1)
    passed, passed4 = (through.mul_(steep).sum(-1) / length for _ in range(2))
    along = a.mul_(unit).sum(-1).double().square() / length  # |v|^2 along h, which is known
    across = total - passed  # the trace of the slopes' squares on the space orthogonal to h
    across4 = root4.square() - 2 * passed4 + passed.square()
    known, mixed = along * passed, 4 * along * (passed4 - passed.square())
    log_mean, log_variance = _log_gamma(known + size * across, size * mixed + 2 * size.square() * across4)
    if orthogonal.any():
        left = (size * n - along).clamp(min=0) / max(n - 1, 1)
        spherical = 2 * ((n - 1) * across4 - across.square()) / (n + 1)
        most = known + left * (n - 1) * steep.amax(-1)
        haar = _log_beta(known + left * across, left * mixed + left.square() * spherical, most)
        log_mean, log_variance = (
            torch.where(orthogonal[:, None], *pair) for pair in zip(haar, (log_mean, log_variance), strict=True)
        )
    steep.div_(root4.clamp_(min=1e-300)[..., None])
    return _law(log_mean, log_variance, _cosines(unit[:, :MOST]).square_(), _cosines(steep[:, :MOST]))


def _log_gamma(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and variance of the logarithm of a gamma variate."""
    shape = (mean.square() / variance.clamp(min=1e-300)).clamp(max=_SHARPEST)
    return mean.log() + torch.special.digamma(shape) - shape.log(), torch.special.polygamma(1, shape)


def _log_beta(mean: Tensor, variance: Tensor, most: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and variance of the logarithm of a beta variate, scaled to be at most `most`."""
    scale = most.clamp(min=1e-150)
    share, spread = mean / scale, (variance / scale.square()).clamp(min=1e-300)
    both = (share * (1 - share) / spread - 1).clamp(1, _SHARPEST)
    one = (share * both).clamp(min=1e-3)
    log_mean = most.log() + torch.special.digamma(one) - torch.special.digamma(both)
    log_variance = torch.special.polygamma(1, one) - torch.special.polygamma(1, both)
    certain = variance <= 1e-12 * mean.square()
    return torch.where(certain, mean.log(), log_mean), torch.where(certain, 0.0, log_variance)


def _law(log_mean: Tensor, log_variance: Tensor, alike: Tensor, shared: Tensor) -> Law:
    """Return the law of half of a logarithm.

    shared: how far the slopes of two examples let the same units through. The random vectors W^T delta of two examples
    correlate as their deltas do, and squares of Gaussians correlate as the square of that, in these units. Both are
    known between the first examples, which stand for all.
    """
    log_mean, log_variance = log_mean / 2, log_variance / 4
    deviation = log_variance.nan_to_num(0.0).clamp(min=0).sqrt()
    known = torch.isfinite(log_mean)
    weights = (deviation * known / known.sum(-1, keepdim=True).clamp(min=1)).to(alike)
    examples, compared = weights.shape[-1], alike.shape[-1]
    for pairs in (alike, shared):
        pairs.diagonal(dim1=-2, dim2=-1).zero_()
    more = examples * (examples - 1) / max(compared * (compared - 1), 1)  # pairs for each that is compared
    mean_alike = (examples + more * alike.sum(dim=(-2, -1)).double()) / examples**2
    few = weights[..., :compared]
    between = vecdot((shared.mul_(alike) @ few[..., None])[..., 0], few)
    return Law(log_mean, log_variance, (vecdot(weights, weights) + between * more).double(), mean_alike)


def _unit(rows: Tensor) -> Tensor:
    """Return rows of unit length, zero where they are, of the dtype of the rows but at least in single precision."""
    double = doubled(rows)
    lengths = vector_norm(double, dim=-1, keepdim=True)
    return double.div_(lengths.clamp_(min=1e-300)).to(torch.promote_types(rows.dtype, torch.float32))


def _cosines(unit: Tensor) -> Tensor:
    """Return the cosines between the rows of each layer, which are of unit length.

    In single precision, which is enough for a variance: these products take most of the time.
    """
    single = unit.float()
    return single @ single.mT

"""The law of one step of a walk, given the forward pass and the gradient above it.

A dense layer a = W h takes delta' back to v = W^T delta'. Given a, the part of v along h is known and the rest is
random: v = h (a . delta') / |h|^2 + (I - h h^T / |h|^2) xi |delta'| sigma for Gaussian weights, where sigma is their
root mean square, and a vector uniform on a sphere for orthogonal ones. The gradient below is s * v with the slopes s
that the activation has for this example, so that mean and variance of |delta|^2 follow from a few sums over the units.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.linalg import vecdot, vector_norm

_SHARPEST = 1e9  # above this shape parameter a gamma variate is constant to all digits that matter


class Law(NamedTuple):
    """Mean and variance of ln(|delta_d| / |delta_(d+1)|) per example, and the variance of their mean over the batch.

    alike: the mean squared cosine between the gradients of two examples.
    """

    mean: Tensor
    variance: Tensor
    pooled: Tensor
    alike: Tensor


class Sums(NamedTuple):
    """What the law of a step needs of a forward pass: sums over the units, per layer and example.

    length: |h|^2 of the input. total, root4: the sum of the squared slopes, which the gradient of the input is
    multiplied with, and the root of the sum of their squares. passed, passed4: the means of both weighted by h^2.
    along: a . delta' / |delta'|, of the output without bias and its gradient. steepest: the largest squared slope,
    for orthogonal weights alone. alike, per layer: the root of the sum of the squared cosines between the gradients of
    the first examples. common, per layer and pair of these: the squared cosine times how far the slopes of both let the
    same units through.
    """

    length: Tensor
    total: Tensor
    root4: Tensor
    passed: Tensor
    passed4: Tensor
    along: Tensor
    steepest: Tensor
    alike: Tensor
    common: Tensor


def sums_of(h: Tensor, slopes: Tensor, along: Tensor, cosines: Tensor, steepest: bool) -> Sums:
    """Return the sums of some layers; the dimensions are layer, example, unit.

    h and slopes are overwritten. cosines: between the gradients of the first examples, 0 between each and itself.
    steepest: whether that is needed.
    """
    through, steep, least = h.square_(), slopes.square_(), torch.finfo(h.dtype).tiny
    length, total, root4 = through.sum(-1), steep.sum(-1), vector_norm(steep, dim=-1)
    passed, passed4 = (through.mul_(steep).sum(-1).div_(length.clamp(min=least)) for _ in range(2))
    largest = steep.amax(-1) if steepest else total
    few = steep[:, : cosines.shape[-1]]
    inverse = root4[:, : cosines.shape[-1], None].clamp(min=least).reciprocal_()
    shared = torch.bmm(few, few.mT).mul_(inverse).mul_(inverse.mT)
    alike, common = vector_norm(cosines, dim=(-2, -1)), shared.to(cosines.dtype).mul_(cosines).mul_(cosines)
    rows = (each.double() for each in (length, total, root4, passed, passed4, along, largest))
    return Sums._make([*rows, alike, common])


def together(parts: Sequence[Sums]) -> Sums:
    """Return the sums of some parts of the layers as those of all."""
    return parts[0] if len(parts) == 1 else Sums._make(map(torch.cat, zip(*parts, strict=True)))


def dense_law(sums: Sums, units: int, mean_square: Tensor, orthogonal: Tensor) -> Law:
    """Return the law of the step through dense layers.

    units: of the inputs. mean_square: of the weights, per layer; orthogonal: whether they are, per layer. The logarithm
    of |delta|^2 is taken as that of a gamma variate of the same mean and variance, or of a beta variate for orthogonal
    weights, which is nearly exact for linear and ReLU units.
    """
    n, size, passed, passed4 = units, mean_square[:, None], sums.passed, sums.passed4
    along = sums.along.square() / sums.length.clamp(min=1e-300)  # |v|^2 along h, which is known
    across = sums.total - passed  # the trace of the slopes' squares on the space orthogonal to h
    across4 = sums.root4.square() - 2 * passed4 + passed.square()
    known, mixed = along * passed, 4 * along * (passed4 - passed.square())
    log_mean, log_variance = _log_gamma(known + size * across, size * mixed + 2 * size.square() * across4)
    if orthogonal.any():
        left = (size * n - along).clamp(min=0) / max(n - 1, 1)
        spherical = 2 * ((n - 1) * across4 - across.square()) / (n + 1)
        most = known + left * (n - 1) * sums.steepest
        haar = _log_beta(known + left * across, left * mixed + left.square() * spherical, most)
        log_mean, log_variance = (
            torch.where(orthogonal[:, None], *pair) for pair in zip(haar, (log_mean, log_variance), strict=True)
        )
    return _law(log_mean, log_variance, sums.alike, sums.common)


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


def _law(log_mean: Tensor, log_variance: Tensor, alike: Tensor, common: Tensor) -> Law:
    """Return the law of half of a logarithm.

    The random vectors W^T delta of two examples correlate as their deltas do, and squares of Gaussians correlate as the
    square of that. Both are known between the first examples, which stand for all.
    """
    log_mean, log_variance = log_mean / 2, log_variance / 4
    deviation = log_variance.nan_to_num(0.0).clamp_(min=0).sqrt_()
    known = torch.isfinite(log_mean)
    weights = (deviation * known / known.sum(-1, keepdim=True).clamp_(min=1)).to(common)
    examples, compared = weights.shape[-1], common.shape[-1]
    more = examples * (examples - 1) / max(compared * (compared - 1), 1)  # pairs for each that is compared
    few = weights[..., :compared]
    between = vecdot((common @ few[..., None])[..., 0], few)
    shares = (examples + more * alike.double().square()) / examples**2
    return Law(log_mean, log_variance, (vecdot(weights, weights) + between * more).double(), shares)

"""How many directions pass: the participation ratio of the squared singular values of a network's Jacobian.

With K = J J^T, J the Jacobian of layer D with respect to layer 0, the ratio (tr K)^2 / tr K^2 is the number of equal
squared singular values that would be spread as unevenly: N if all are alike, 1 if one dominates. It is the ratio of
each network, not that of averages over networks, which a few networks with large gradients would dominate.

A frame of k orthonormal gradients, uniformly distributed, shows the scalar products G = U^T K U. Unbiased estimates of
both traces follow from its elements; they are exact at k = N. Their ratio has a bias proportional to 1/k - 1/N, which
leaving out one gradient at a time (the jackknife) measures and removes, up to a few percent at k = 16.
"""

from collections.abc import Callable
from typing import Any, Generic

import numpy as np

from gradwalk.activations import Activation, Array
from gradwalk.blocks import Block
from gradwalk.checks import Weights
from gradwalk.simulation import memory
from gradwalk.simulation.drawing import Drawing, draw
from gradwalk.simulation.frames import FrameSampler, FrameT
from gradwalk.simulation.networks import Passes
from gradwalk.simulation.sampler import LayerT, OutputT
from gradwalk.simulation.samplers import frame_sampler


class FrameNetworks(Passes[LayerT, OutputT], Generic[LayerT, OutputT, FrameT]):
    """Networks with a frame of gradients each."""

    def __init__(
        self,
        sampler: FrameSampler[LayerT, OutputT, FrameT],
        widths: tuple[int, ...],
        gains: Array,
        advance: Callable[[int], None],
    ) -> None:
        super().__init__(sampler, widths, gains, advance)
        self.frames = sampler

    def products(self, walks: int) -> Array:
        """Return the scalar products of the gradients at layer 0 (walk, gradient, gradient), up to a factor."""
        below, _ = self.forward(walks)
        _, frame, triangular = self.frames.random(below, self.widths[-1], self.gains[-1])
        product = np.broadcast_to(np.eye(len(triangular)), (walks, *triangular.shape[:2]))
        for _, layer in self.downward():
            frame, turn = self.frames.turned(frame, layer)
            product = turn.triangular.transpose(2, 0, 1) @ product
            product /= np.abs(product).max(axis=(1, 2), keepdims=True)
            self.advance(1)
        return np.asarray(product.transpose(0, 2, 1) @ product)


def sample_participation(
    network: Activation | Block,
    widths: tuple[int, ...],
    gains: Array,
    weights: Weights,
    networks: int,
    seed: np.random.SeedSequence,
) -> Array:
    """Return the participation ratio of the Jacobian of each of that many networks."""
    sampler = frame_sampler(network, widths)
    ratios = np.empty(networks)

    def fill(drawn: FrameNetworks[Any, Any, Any], rows: slice) -> int:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # checked in signal.py
            ratios[rows] = participation(drawn.products(rows.stop - rows.start), widths[-1])
        return 0

    drawing: Drawing[FrameNetworks[Any, Any, Any]] = Drawing(
        memory.plan(sampler, widths, networks),
        lambda arena, seed, advance: FrameNetworks(sampler(network, weights, arena, seed), widths, gains, advance),
    )
    draw(drawing, networks, seed, fill, f"{network} directions", len(widths) - 1)
    return ratios


def participation(products: Array, width: int) -> Array:
    """Return (tr K)^2 / tr K^2, given the scalar products under K of orthonormal vectors of a space of `width`.

    >>> participation(np.diag([1.0, 1.0, 0.0])[None], 3)
    array([2.])
    """
    k = products.shape[1]
    diagonal = np.diagonal(products, axis1=1, axis2=2)
    sums = np.stack([diagonal.sum(axis=1), (diagonal**2).sum(axis=1), (products**2).sum(axis=(1, 2))])
    whole = _ratio(sums, k, width)
    if k == width:
        return whole
    left_out = np.stack([diagonal, diagonal**2, 2 * (products**2).sum(axis=2) - diagonal**2])
    without = _ratio(sums[..., None] - left_out, k - 1, width).mean(axis=1)
    return np.asarray(whole - (k - 1) * (1 - k / width) * (without - whole))


def _ratio(sums: Array, k: int, n: int) -> Array:
    """Return the ratio of unbiased estimates, given the sums of G_ii, of G_ii^2 and of all G_ij^2."""
    trace, squares, everything = sums
    many = (n - 1) / (k - 1) if k > 1 else 0.0
    return np.asarray((squares + many * (trace**2 - squares)) / (squares + many * (everything - squares)))

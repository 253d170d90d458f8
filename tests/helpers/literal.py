"""Literal networks of blocks, with matrices and torch.autograd: an independent reference for the sampler."""

import math

import numpy as np
import torch

from gradwalk.blocks import Block, Chain, Dense, Dropout, Norm

FUNCTIONS = {
    "linear": lambda x: x,
    "relu": torch.relu,
    "tanh": torch.tanh,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
}


def literal_walks(
    block: Block, width: int, depth: int, networks: int, seed: int, weights: str = "gaussian"
) -> np.ndarray:
    """Return the final log-norm of that many networks of literal matrices, in double precision."""
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(networks, width, generator=generator, dtype=torch.float64).requires_grad_()
    x = start
    for _ in range(depth):
        x = _apply(block, x, generator, weights)
    delta = torch.randn(x.shape, generator=generator, dtype=torch.float64)
    delta /= delta.norm(dim=1, keepdim=True)
    (gradient,) = torch.autograd.grad(x, start, delta)
    return gradient.norm(dim=1).log().numpy()


def _apply(block: Block, x: torch.Tensor, generator: torch.Generator, weights: str) -> torch.Tensor:
    if isinstance(block, Chain):
        for part in block.parts:
            x = _apply(part, x, generator, weights)
        return x
    if isinstance(block, Dense):
        h = _dropped(FUNCTIONS[block.activation.name](x), block.dropout, generator)
        matrix = _matrix(len(x), block.width or x.shape[1], x.shape[1], generator, weights)
        return block.gain * (matrix @ h[..., None])[..., 0]
    if isinstance(block, Norm):
        grouped = x.unflatten(1, (block.groups, -1))
        if block.kind == "layer":
            grouped = grouped - grouped.mean(dim=2, keepdim=True)
        return (grouped / grouped.square().mean(dim=2, keepdim=True).sqrt()).flatten(1)
    if isinstance(block, Dropout):
        return _dropped(x, block.rate, generator)
    return block.skip * x + block.scale * _apply(block.branch, x, generator, weights)


def _dropped(x: torch.Tensor, rate: float, generator: torch.Generator) -> torch.Tensor:
    return x * (torch.rand(x.shape, generator=generator) >= rate) / (1 - rate)


def _matrix(networks: int, out: int, fan_in: int, generator: torch.Generator, weights: str) -> torch.Tensor:
    """Return matrices whose entries have variance 1 / fan_in: Gaussian, or with Haar's rows or columns."""
    if weights == "gaussian":
        drawn = torch.randn(networks, out, fan_in, generator=generator, dtype=torch.float64)
        return drawn / math.sqrt(fan_in)
    tall = torch.randn(networks, max(out, fan_in), min(out, fan_in), generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(tall)
    q = q * r.diagonal(dim1=1, dim2=2).sign()[:, None, :]
    return q.mT if out < fan_in else q * math.sqrt(out / fan_in)

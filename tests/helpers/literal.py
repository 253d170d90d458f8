"""Literal networks of blocks, with matrices and torch.autograd: an independent reference for the sampler."""

import math

import numpy as np
import torch

from gradwalk.blocks import Block, Chain, Dense, Dropout, Norm
from helpers.literal_pairs import LiteralPairs, cosines

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
    return literal_block_pairs(block, width, depth, networks, seed, weights).first


def literal_block_pairs(
    block: Block, width: int, depth: int, networks: int, seed: int, weights: str = "gaussian", inputs: int = 1
) -> LiteralPairs:
    """Return the final values of two gradients per network, at one input or at two."""
    generator = torch.Generator().manual_seed(seed)
    start, x = _run(block, (networks, inputs, width), depth, generator, weights)
    delta = torch.randn(networks, 2, width, generator=generator, dtype=torch.float64)
    delta /= delta.norm(dim=2, keepdim=True)
    deltas = [delta] if inputs == 2 else [delta[:, :1], delta[:, 1:]]
    gradients = torch.cat([torch.autograd.grad(x, start, each, retain_graph=True)[0] for each in deltas], dim=1)
    signal_cosine = cosines(x.detach().mT.numpy()) if inputs == 2 else np.ones(networks)
    return LiteralPairs(*gradients.norm(dim=2).log().T.numpy(), cosines(gradients.mT.numpy()), signal_cosine)


def literal_output(
    block: Block, width: int, depth: int, networks: int, seed: int, weights: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the inputs (network, 1, unit) and the outputs of that many networks, in a graph of autograd."""
    return _run(block, (networks, 1, width), depth, torch.Generator().manual_seed(seed), weights)


def _run(
    block: Block, shape: tuple[int, ...], depth: int, generator: torch.Generator, weights: str
) -> tuple[torch.Tensor, torch.Tensor]:
    start = torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
    x = start
    for _ in range(depth):
        x = _apply(block, x, generator, weights)
    return start, x


def _apply(block: Block, x: torch.Tensor, generator: torch.Generator, weights: str) -> torch.Tensor:
    if isinstance(block, Chain):
        for part in block.parts:
            x = _apply(part, x, generator, weights)
        return x
    if isinstance(block, Dense):
        h = _dropped(FUNCTIONS[block.activation.name](x), block.dropout, generator)
        matrix = _matrix(len(x), block.width or x.shape[2], x.shape[2], generator, weights)
        return block.gain * (h @ matrix.mT)
    if isinstance(block, Norm):
        grouped = x.unflatten(2, (block.groups, -1))
        if block.kind == "layer":
            grouped = grouped - grouped.mean(dim=3, keepdim=True)
        return (grouped / grouped.square().mean(dim=3, keepdim=True).sqrt()).flatten(2)
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

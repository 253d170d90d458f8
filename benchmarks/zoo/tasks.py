"""Toy tasks on which small models make progress within 150 steps; each batch is drawn anew, with noise.

Noise keeps the loss well above 0, so that the ratio of two losses means something.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from zoo.case import Batch

_FIELDS = ("logits", "prediction_outputs", "sample", "last_hidden_state")


def tensor_of(output: Any) -> Tensor:
    """Return the tensor of interest in what a model returns: a tensor, a tuple that begins with it, or a record."""
    if isinstance(output, Tensor):
        return output
    for field in _FIELDS:
        if getattr(output, field, None) is not None:
            return getattr(output, field)
    return tensor_of(output[0])


def _seeded() -> Generator:
    return torch.Generator().manual_seed(7)


@lru_cache
def patterns(classes: int, channels: int, size: int) -> Tensor:
    """Return one smooth random image per class, of unit variance."""
    coarse = torch.randn(classes, channels, 4, 4, generator=_seeded())
    fine = F.interpolate(coarse, size=(size, size), mode="bilinear", align_corners=False)
    return fine / fine.std(dim=(1, 2, 3), keepdim=True)


@dataclass(frozen=True)
class Images:
    """Which of ten patterns is in a noisy image; 5 % of the labels are random."""

    size: int = 16
    noise: float = 2.0
    batch: int = 12

    def draw(self, generator: Generator) -> Batch:
        """Return images and the numbers of their patterns."""
        target = torch.randint(10, (self.batch,), generator=generator)
        clean = patterns(10, 3, self.size)[target]
        wrong = torch.rand(self.batch, generator=generator) < 0.05
        target = torch.where(wrong, torch.randint(10, (self.batch,), generator=generator), target)
        return Batch((clean + self.noise * torch.randn(clean.shape, generator=generator),), target)

    def loss(self, output: Any, target: Tensor) -> Tensor:
        """Return the cross-entropy."""
        return F.cross_entropy(tensor_of(output), target)


@dataclass(frozen=True)
class Denoising:
    """The clean image behind a noisy one."""

    size: int
    channels: int = 1
    noise: float = 0.7
    batch: int = 8

    def draw(self, generator: Generator) -> Batch:
        """Return noisy images and mixtures of two patterns, which are their clean versions."""
        shares = torch.randn(self.batch, 10, generator=generator)
        clean = torch.einsum("bk,kchw->bchw", shares, patterns(10, self.channels, self.size)) / math.sqrt(10)
        return Batch((clean + self.noise * torch.randn(clean.shape, generator=generator),), clean)

    def loss(self, output: Any, target: Tensor) -> Tensor:
        """Return the mean squared error."""
        return F.mse_loss(tensor_of(output), target)


@dataclass(frozen=True)
class Diffusion:
    """The noise in an image, given its level as a time from 0 to 999."""

    size: int
    channels: int = 1
    batch: int = 8

    def draw(self, generator: Generator) -> Batch:
        """Return noisy images with their times, and the noise."""
        clean = Denoising(self.size, self.channels, 0.0, self.batch).draw(generator).target
        time = torch.randint(1000, (self.batch,), generator=generator)
        signal = torch.cos(0.5 * math.pi * time / 1000).view(-1, 1, 1, 1)
        noise = torch.randn(clean.shape, generator=generator)
        return Batch((signal * clean + (1 - signal.square()).sqrt() * noise, time), noise)

    def loss(self, output: Any, target: Tensor) -> Tensor:
        """Return the mean squared error."""
        return F.mse_loss(tensor_of(output), target)


@dataclass(frozen=True)
class Segmentation:
    """Whether a pixel of a noisy image is inside the disc."""

    size: int
    channels: int = 1
    batch: int = 8

    def draw(self, generator: Generator) -> Batch:
        """Return images and masks."""
        centre = self.size * (0.25 + 0.5 * torch.rand(self.batch, 2, 1, 1, generator=generator))
        radius = self.size * (0.1 + 0.2 * torch.rand(self.batch, 1, 1, generator=generator))
        y, x = torch.meshgrid(torch.arange(self.size), torch.arange(self.size), indexing="ij")
        mask = ((y - centre[:, 0]).square() + (x - centre[:, 1]).square() < radius.square()).float()[:, None]
        shape = (self.batch, self.channels, self.size, self.size)
        return Batch((mask + 0.8 * torch.randn(shape, generator=generator),), mask)

    def loss(self, output: Any, target: Tensor) -> Tensor:
        """Return the binary cross-entropy."""
        return F.binary_cross_entropy_with_logits(tensor_of(output), target)


VOCABULARY = 32


def walk_of_tokens(batch: int, length: int, generator: Generator, noise: float = 0.15) -> Tensor:
    """Return sequences in which each token determines the next, except for a share of random ones."""
    after = torch.randperm(VOCABULARY, generator=_seeded())
    tokens = [torch.randint(VOCABULARY, (batch,), generator=generator)]
    for _ in range(length - 1):
        jump = torch.rand(batch, generator=generator) < noise
        tokens.append(torch.where(jump, torch.randint(VOCABULARY, (batch,), generator=generator), after[tokens[-1]]))
    return torch.stack(tokens, dim=1)


def _cross_entropy(output: Any, target: Tensor) -> Tensor:
    return F.cross_entropy(tensor_of(output).transpose(1, 2), target)


@dataclass(frozen=True)
class NextToken:
    """The next token of a sequence."""

    length: int = 16
    batch: int = 8

    def draw(self, generator: Generator) -> Batch:
        """Return sequences and the same shifted by one."""
        tokens = walk_of_tokens(self.batch, self.length + 1, generator)
        return Batch((tokens[:, :-1],), tokens[:, 1:])

    def loss(self, output: Any, target: Tensor) -> Tensor:
        """Return the cross-entropy."""
        return _cross_entropy(output, target)


@dataclass(frozen=True)
class MaskedToken:
    """The tokens of a sequence of which a quarter are masked."""

    length: int = 16
    batch: int = 8

    def draw(self, generator: Generator) -> Batch:
        """Return masked and whole sequences; the mask is one more token."""
        tokens = walk_of_tokens(self.batch, self.length, generator)
        masked = torch.rand(tokens.shape, generator=generator) < 0.25
        return Batch((tokens.masked_fill(masked, VOCABULARY),), tokens)

    def loss(self, output: Any, target: Tensor) -> Tensor:
        """Return the cross-entropy."""
        return _cross_entropy(output, target)


@dataclass(frozen=True)
class Translation:
    """A sequence of tokens from the same written with other tokens."""

    length: int = 16
    batch: int = 8

    def draw(self, generator: Generator) -> Batch:
        """Return the source, no mask and the target for teacher forcing, and the target."""
        source = walk_of_tokens(self.batch, self.length, generator)
        target = (source + 5) % VOCABULARY
        begun = torch.cat([torch.zeros_like(target[:, :1]), target[:, :-1]], dim=1)
        return Batch((source, None, begun), target)

    def loss(self, output: Any, target: Tensor) -> Tensor:
        """Return the cross-entropy."""
        return _cross_entropy(output, target)


def _waves(batch: int, length: int, generator: Generator) -> Tensor:
    time = torch.arange(length) / 24
    phase = torch.rand(2, batch, 1, generator=generator)
    share = torch.rand(batch, 1, generator=generator)
    slow, fast = torch.sin(2 * math.pi * (time + phase[0])), torch.sin(2 * math.pi * (3 * time + phase[1]))
    return share * slow + (1 - share) * fast


@dataclass(frozen=True)
class Forecast:
    """The next 12 values of a noisy sum of two waves, as (batch, time) or, with channels, (batch, time, channels)."""

    channels: int = 0
    past: int = 48
    batch: int = 32

    def draw(self, generator: Generator) -> Batch:
        """Return past and future."""
        rows = self.batch * max(self.channels, 1)
        waves = _waves(rows, self.past + 12, generator)
        waves = waves + 0.1 * torch.randn(waves.shape, generator=generator)
        if self.channels:
            waves = waves.view(self.batch, self.channels, -1).transpose(1, 2)
        return Batch((waves[:, : self.past],), waves[:, self.past :])

    def loss(self, output: Any, target: Tensor) -> Tensor:
        """Return the mean squared error."""
        return F.mse_loss(tensor_of(output).reshape(target.shape), target)


@dataclass(frozen=True)
class Table:
    """A smooth function of 16 numbers, with noise; `trailing` arguments of None follow for models that want them."""

    batch: int = 64
    trailing: int = 0

    def draw(self, generator: Generator) -> Batch:
        """Return rows and values of about unit variance."""
        x = torch.randn(self.batch, 16, generator=generator)
        directions = torch.randn(16, 4, generator=_seeded()) / 4
        a, b, c, d = (x @ directions).unbind(1)
        y = 1.5 * a + torch.sin(2 * b) + c * d + 0.3 * torch.randn(self.batch, generator=generator)
        return Batch((x, *[None] * self.trailing), y)

    def loss(self, output: Any, target: Tensor) -> Tensor:
        """Return the mean squared error."""
        return F.mse_loss(tensor_of(output).flatten(), target)


@dataclass(frozen=True)
class Surface:
    """A function of two coordinates, as for implicit representations."""

    batch: int = 128

    def draw(self, generator: Generator) -> Batch:
        """Return points of the square and values."""
        x = 2 * torch.rand(self.batch, 2, generator=generator) - 1
        y = torch.sin(6 * x[:, 0]) * torch.cos(4 * x[:, 1]) + 0.1 * torch.randn(self.batch, generator=generator)
        return Batch((x,), y)

    def loss(self, output: Any, target: Tensor) -> Tensor:
        """Return the mean squared error."""
        return F.mse_loss(tensor_of(output).flatten(), target)


@dataclass(frozen=True)
class Density:
    """The density of bent Gaussians in 8 dimensions; the model returns log-densities."""

    batch: int = 128

    def draw(self, generator: Generator) -> Batch:
        """Return points and their true log-densities."""
        z = torch.randn(self.batch, 4, 2, generator=generator)
        bent = torch.stack([z[..., 0], 0.5 * z[..., 1] + z[..., 0].square() - 1], dim=-1)
        true = (-0.5 * z.square() - 0.5 * math.log(2 * math.pi)).sum(dim=(1, 2)) - 4 * math.log(0.5)
        return Batch((bent.flatten(1),), true)

    def loss(self, output: Any, target: Tensor) -> Tensor:
        """Return an estimate of the Kullback-Leibler divergence, which is positive up to its error."""
        return (target - output).mean()


@dataclass(frozen=True)
class Pitch:
    """Which of eight pitches a noisy sound has."""

    length: int = 800
    batch: int = 8

    def draw(self, generator: Generator) -> Batch:
        """Return waveforms and classes."""
        target = torch.randint(8, (self.batch,), generator=generator)
        phase = torch.rand(self.batch, 1, generator=generator)
        period = 80 / 1.3 ** target.unsqueeze(1)
        sound = torch.sin(2 * math.pi * (torch.arange(self.length) / period + phase))
        return Batch((sound + 0.5 * torch.randn(sound.shape, generator=generator),), target)

    def loss(self, output: Any, target: Tensor) -> Tensor:
        """Return the cross-entropy."""
        return F.cross_entropy(tensor_of(output), target)


@dataclass(frozen=True)
class Frames:
    """The clean features of each frame behind noisy ones, as (batch, time, features)."""

    features: int
    length: int = 24
    batch: int = 6

    def draw(self, generator: Generator) -> Batch:
        """Return noisy and clean frames."""
        waves = _waves(self.batch * 4, self.length, generator).view(self.batch, 4, self.length)
        mixing = torch.randn(4, self.features, generator=_seeded())
        clean = torch.einsum("bkt,kf->btf", waves, mixing)
        return Batch((clean + torch.randn(clean.shape, generator=generator),), clean)

    def loss(self, output: Any, target: Tensor) -> Tensor:
        """Return the mean squared error."""
        return F.mse_loss(tensor_of(output), target)


@dataclass(frozen=True)
class Transcript:
    """The tokens spoken in frames of sound, one per four frames, as (batch, features, time) for Whisper."""

    features: int = 16
    length: int = 64
    batch: int = 8

    def draw(self, generator: Generator) -> Batch:
        """Return frames, no mask and the tokens for teacher forcing, and the tokens."""
        tokens = walk_of_tokens(self.batch, self.length // 4, generator)
        spoken = torch.randn(VOCABULARY, self.features, generator=_seeded())[tokens].repeat_interleave(4, dim=1)
        frames = spoken + 0.3 * torch.randn(spoken.shape, generator=generator)
        begun = torch.cat([torch.zeros_like(tokens[:, :1]), tokens[:, :-1]], dim=1)
        return Batch((frames.transpose(1, 2), None, begun), tokens)

    def loss(self, output: Any, target: Tensor) -> Tensor:
        """Return the cross-entropy."""
        return _cross_entropy(output, target)


@dataclass(frozen=True)
class Separation:
    """Two sounds from their sum."""

    length: int = 400
    batch: int = 3

    def draw(self, generator: Generator) -> Batch:
        """Return mixtures and their two parts, of low and of high pitch."""
        time = torch.arange(self.length)
        low = 40 + 20 * torch.rand(self.batch, 1, generator=generator)
        high = 8 + 4 * torch.rand(self.batch, 1, generator=generator)
        parts = torch.stack([torch.sin(2 * math.pi * time / period) for period in (low, high)], dim=1)
        mixture = parts.sum(dim=1) + 0.5 * torch.randn(self.batch, self.length, generator=generator)
        return Batch((mixture,), parts)

    def loss(self, output: Any, target: Tensor) -> Tensor:
        """Return the mean squared error."""
        return F.mse_loss(tensor_of(output), target)


@dataclass(frozen=True)
class Graph:
    """A function of the mean over each node's neighbours and theirs, on random graphs of 128 nodes."""

    features: int = 8

    def draw(self, generator: Generator) -> Batch:
        """Return features of nodes with edges, and values."""
        x = torch.randn(128, self.features, generator=generator)
        edges = torch.randint(128, (2, 512), generator=generator)
        mean = x
        for _ in range(2):
            mean = torch.zeros_like(x).index_add(0, edges[1], mean[edges[0]]) / 2
        y = mean[:, 0] + torch.sin(mean[:, 1]) + 0.2 * torch.randn(128, generator=generator)
        return Batch((x, edges), y)

    def loss(self, output: Any, target: Tensor) -> Tensor:
        """Return the mean squared error."""
        return F.mse_loss(tensor_of(output).flatten(), target)


@dataclass(frozen=True)
class Cloud:
    """The charge-weighted distance of each point of a cloud to the others, from features and coordinates."""

    batch: int = 8

    def draw(self, generator: Generator) -> Batch:
        """Return features and coordinates of 12 points each, and values."""
        charge = torch.randn(self.batch, 12, 8, generator=generator)
        place = torch.randn(self.batch, 12, 3, generator=generator)
        pull = torch.exp(-torch.cdist(place, place).square())
        y = torch.einsum("bij,bj->bi", pull, charge[..., 0]) + 0.1 * torch.randn(self.batch, 12, generator=generator)
        return Batch((charge, place), y)

    def loss(self, output: Any, target: Tensor) -> Tensor:
        """Return the mean squared error of the first feature."""
        return F.mse_loss(tensor_of(output)[..., 0], target)

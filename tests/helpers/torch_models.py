"""Small torch models that several tests use."""

import itertools
import math

import torch
from torch import nn


def generator(seed):
    return torch.Generator().manual_seed(seed)


def mlp(widths, activation):
    """Return Linear, activation, ..., Linear with torch's own weights."""
    layers = [each for n, m in itertools.pairwise(widths) for each in (nn.Linear(n, m), activation())]
    return nn.Sequential(*layers[:-1])


def scaled_mlp(widths, activation, gain, *, first_gain=None, seed=0, bias=True, dtype=torch.float32, orthogonal=False):
    """Return an MLP with weights of this gain, the first layer's of another if given, and biases of 0."""
    draw, model = generator(seed), mlp(widths, activation).to(dtype)
    for place, layer in enumerate(model[::2]):
        n_in = layer.in_features
        with torch.no_grad():
            layer.weight.normal_(generator=draw)
            if orthogonal:
                nn.init.orthogonal_(layer.weight, math.sqrt(n_in), generator=draw)
            layer.weight.mul_((gain if place or first_gain is None else first_gain) / math.sqrt(n_in))
        nn.init.zeros_(layer.bias)
        layer.bias = layer.bias if bias else None
    return model


class Wired(nn.Module):
    """A model from a function of its layers and the input."""

    def __init__(self, wiring, **layers):
        super().__init__()
        self.wiring = wiring
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x):
        return self.wiring(self, x)


class Conv1D(nn.Module):
    """The linear layer of transformers, whose weight is (in, out)."""

    def __init__(self, nf, nx):
        super().__init__()
        self.nf = nf
        self.weight = nn.Parameter(torch.empty(nx, nf))
        self.bias = nn.Parameter(torch.zeros(nf))

    @classmethod
    def like(cls, linear):
        """Return a layer that computes what a Linear computes."""
        layer = cls(linear.out_features, linear.in_features)
        with torch.no_grad():
            layer.weight.copy_(linear.weight.T)
            layer.bias.copy_(linear.bias)
        return layer

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*x.shape[:-1], self.nf)


def square(width=12):
    return nn.Linear(width, width)


class Branch(nn.Module):
    """x + b(relu(a(norm(x)))), with dropout before b if a rate is given."""

    def __init__(self, width, norm=None, dropout=0.0):
        super().__init__()
        self.norm = norm(width) if norm else nn.Identity()
        self.a, self.b, self.dropout = nn.Linear(width, width), nn.Linear(width, width), nn.Dropout(dropout)

    def forward(self, x):
        return x + self.b(self.dropout(torch.relu(self.a(self.norm(x)))))


def residual(blocks, width=64, norm=None):
    return nn.Sequential(nn.Linear(10, width), *(Branch(width, norm) for _ in range(blocks)), nn.Linear(width, 1))

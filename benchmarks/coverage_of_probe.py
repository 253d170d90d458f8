"""The coverage of `probe`'s 95 % band: how often the final log-norm of 100 networks of a kind lies within it.

python benchmarks/coverage_of_probe.py [kind ...] --nets 100 --page results/coverage.md
"""

import argparse
import math
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

import gradwalk
from gradwalk.torch import probe

_WIDTH, _DEPTH, _BATCH = 50, 20, 16


class Net(NamedTuple):
    """A network and a batch for it."""

    model: nn.Module
    x: Tensor


def mlp(activation: type[nn.Module], gain: float, draw: torch.Generator) -> Net:
    """Return a chain of dense layers."""
    layers: list[nn.Module] = []
    for place in range(_DEPTH):
        layer = nn.Linear(_WIDTH, _WIDTH)
        nn.init.normal_(layer.weight, 0, (gain if place else 1.0) / math.sqrt(_WIDTH), generator=draw)
        nn.init.zeros_(layer.bias)
        layers += [layer, activation()]
    return Net(nn.Sequential(*layers[:-1]), torch.randn(_BATCH, _WIDTH, generator=draw))


def convolutions(draw: torch.Generator, size: int = 10, strided: tuple[int, ...] = (), **options: Any) -> Net:
    """Return a chain of ten ReLU convolutions of 12 channels, the first of 3."""
    layers: list[nn.Module] = []
    for place in range(10):
        settings: dict[str, Any] = {"kernel_size": 3, "padding": 1, "stride": 2 if place in strided else 1, **options}
        layer = nn.Conv2d(12, 12, **settings) if place else nn.Conv2d(3, 12, **{**settings, "groups": 1})
        nn.init.normal_(layer.weight, 0, math.sqrt(2 / layer.weight[0].numel()), generator=draw)
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.ReLU()]
    return Net(nn.Sequential(*layers[:-1]), torch.randn(8, 3, size, size, generator=draw))


class Residual(nn.Module):
    """Twenty blocks x + down(relu(up(norm(x)))), scaled by 1/sqrt(20), between a first layer and a head."""

    def __init__(self, norm: Callable[[int], nn.Module], draw: torch.Generator, width: int = 32) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(width, width), nn.Linear(width, 8)
        self.norms = nn.ModuleList([norm(width) for _ in range(20)])
        self.ups, self.downs = (nn.ModuleList([nn.Linear(width, width) for _ in range(20)]) for _ in range(2))
        for layer in (self.first, self.head, *self.ups, *self.downs):
            gain = math.sqrt(2 / 20) if layer in set(self.downs) else 1.0
            nn.init.normal_(layer.weight, 0, gain / math.sqrt(width), generator=draw)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for norm, up, down in zip(self.norms, self.ups, self.downs, strict=True):
            x = x + down(torch.relu(up(norm(x))))
        return self.head(x)  # type: ignore[no-any-return]


def residual(norm: Callable[[int], nn.Module], draw: torch.Generator) -> Net:
    """Return a residual network."""
    return Net(Residual(norm, draw), torch.randn(_BATCH, 32, generator=draw))


KINDS: dict[str, Callable[[torch.Generator], Net]] = {
    "MLP, relu": lambda draw: mlp(nn.ReLU, gradwalk.gain("relu", _WIDTH), draw),
    "MLP, tanh": lambda draw: mlp(nn.Tanh, 1.25, draw),
    "MLP, gelu": lambda draw: mlp(nn.GELU, 1.55, draw),
    "MLP, silu": lambda draw: mlp(nn.SiLU, 1.68, draw),
    "convolutions, padded": lambda draw: convolutions(draw),
    "convolutions, strided": lambda draw: convolutions(draw, size=16, strided=(3, 6)),
    "convolutions, 4 groups": lambda draw: convolutions(draw, groups=4),
    "convolutions, depthwise": lambda draw: convolutions(draw, groups=12),
    "convolutions, dilated": lambda draw: convolutions(draw, dilation=2, padding=2),
    "convolutions, circular": lambda draw: convolutions(draw, padding_mode="circular"),
    "residual MLP": lambda draw: residual(lambda _: nn.Identity(), draw),
    "pre-norm MLP, LayerNorm": lambda draw: residual(nn.LayerNorm, draw),
    "pre-norm MLP, RMSNorm": lambda draw: residual(nn.RMSNorm, draw),
}


def scores(kind: str, nets: int) -> tuple[np.ndarray, float]:
    """Return z of the final log-norm of each network, and the mean half width of the band."""
    found, widths = [], []
    for seed in range(nets):
        draw = torch.Generator().manual_seed(seed)
        model, x = KINDS[kind](draw)
        with torch.no_grad():
            direction = torch.randn(model(x).shape, generator=draw)
        walk = probe(model, x, lambda y, v=direction: (y * v).sum())
        found.append(walk.z[0])
        widths.append((walk.high[0] - walk.low[0]) / 2)
    return np.array(found), float(np.mean(widths))


def main() -> None:
    """Print the table and write it to a page if one is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help="beginnings of the names of kinds; all if none is given")
    parser.add_argument("--nets", type=int, default=100)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    kinds = [kind for kind in KINDS if not options.kinds or any(kind.startswith(each) for each in options.kinds)]
    lines = ["| network | within the band | mean of z | sd of z | half width |", "|---|---|---|---|---|"]
    for kind in kinds:
        z, width = scores(kind, options.nets)
        lines.append(f"| {kind} | {(abs(z) <= 1.96).mean():.2f} | {z.mean():+.2f} | {z.std():.2f} | {width:.2f} |")
        print(lines[-1], flush=True)
    if options.page:
        options.page.write_text(_page(lines, options.nets), encoding="utf-8")


def _page(lines: list[str], nets: int) -> str:
    versions = f"gradwalk {gradwalk.__version__}, torch {torch.__version__}, Python {sys.version.split()[0]}"
    head = [
        "# Coverage of the 95 % band of `probe`",
        f"`python benchmarks/coverage_of_probe.py --nets {nets} --page results/coverage.md`, "
        f"{datetime.now(UTC):%Y-%m-%d}; {versions}. How often the final log-norm, a mean over the batch, lies within "
        f"the predicted band, for {nets} networks of each kind with weights of their own; z: (measured - predicted) / "
        "sd; half width: of the band, in logarithms.",
    ]
    return "\n\n".join([*head, "\n".join(lines)]) + "\n"


if __name__ == "__main__":
    main()

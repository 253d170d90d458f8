"""Draw the picture of README.md: a plain network of 200 layers before and after `init_`.

python docs/before_after.py

On the left the norm of its gradient, layer by layer, measured by `probe`; on the right its training loss. Both networks
have the same layers, the same minibatches of scikit-learn's digits and the same optimizer: Adam at 1e-4, the better of
1e-4 and 3e-4 for the network that learns; the other stays at chance at both. About half a minute on one core.
"""

from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from sklearn.datasets import load_digits
from torch import nn

import gradwalk.torch as gwt
from gradwalk.figures import BLACK, BLUE, RED, canvas

DEPTH, WIDTH, STEPS, BATCH, RATE = 200, 64, 200, 100, 1e-4
AFTER = 'after init_(model, weights="orthogonal")'
OUT = Path(__file__).parent / "before-after.png"


def deep_network() -> nn.Sequential:
    """Return a plain tanh network with torch's own weights."""
    torch.manual_seed(0)
    hidden = [each for _ in range(DEPTH - 2) for each in (nn.Linear(WIDTH, WIDTH), nn.Tanh())]
    return nn.Sequential(nn.Linear(64, WIDTH), nn.Tanh(), *hidden, nn.Linear(WIDTH, 10))


def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the images, standardised, and their labels."""
    images, labels = load_digits(return_X_y=True)
    return torch.tensor((images - images.mean()) / images.std(), dtype=torch.float32), torch.tensor(labels)


def losses(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> list[float]:
    """Train a model, and return the loss of every step."""
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    history = []
    for _ in range(STEPS):
        batch = torch.randint(len(x), (BATCH,), generator=generator)
        loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return history


def draw_walk(ax: Axes, walk: gwt.GradientWalk, colour: str, label: str) -> None:
    """Draw the norm of the gradient from the output back to the first layer."""
    ax.plot(np.arange(len(walk.layers) - 1, -1, -1), np.exp(walk.log_norm), color=colour, lw=2, label=label)


def main() -> None:
    """Measure, train and draw."""
    torch.set_num_threads(1)
    x, y = digits()
    figure, panels = canvas(1, 2, (9, 3.4))
    walk_panel, loss_panel = panels[0]
    for label, colour, initialise in (("torch's default", RED, False), (AFTER, BLUE, True)):
        model = deep_network()
        if initialise:
            gwt.init_(model, weights="orthogonal")
        walk = gwt.probe(model, x[:BATCH], lambda output: nn.functional.cross_entropy(output, y[:BATCH]))
        draw_walk(walk_panel, walk, colour, label)
        history = losses(model, x, y)
        loss_panel.plot(range(1, STEPS + 1), history, color=colour, lw=1.5, label=label)
        print(f"{label}: {walk.status}, factor {walk.factor:.2g}, loss {np.mean(history[-20:]):.3f}")
    walk_panel.set(xlabel="layers travelled back from the output", title=f"Gradient through {DEPTH} tanh layers")
    walk_panel.set(yscale="log", ylabel="norm, relative to that at the output")
    loss_panel.axhline(np.log(10), color=BLACK, lw=0.8, ls=":", label="chance, ln 10")
    loss_panel.set(xlabel="step", ylabel="training loss", ylim=(0, None), title="The same network, training")
    loss_panel.legend(frameon=False, loc="center right", fontsize=9)
    figure.savefig(OUT, dpi=150)
    print(OUT.name)


if __name__ == "__main__":
    main()

"""Draw the picture of docs/directions.md: a 200-layer ReLU network with a healthy norm, without and with a leak.

python docs/leak_before_after.py

On the left how many directions the gradients of a batch span, layer by layer, measured by `probe`; on the right the
training loss. Both networks have the same layers, the same minibatches of scikit-learn's digits and the same optimizer
as docs/before_after.py. Prints what `probe` and `advise` say. About a minute on one core.
"""

from pathlib import Path

import numpy as np
import torch
from before_after import BATCH, STEPS, digits, losses
from matplotlib.axes import Axes
from torch import nn

import gradwalk as gw
import gradwalk.torch as gwt
from gradwalk.figures import BLACK, BLUE, RED, canvas

DEPTH, WIDTH = 200, 48
OUT = Path(__file__).parent / "leak-before-after.png"


def relu_network() -> nn.Sequential:
    """Return a plain ReLU network with unbiased Gaussian weights."""
    torch.manual_seed(0)
    hidden = [each for _ in range(DEPTH - 2) for each in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    net = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU(), *hidden, nn.Linear(WIDTH, 10))
    gwt.init_(net, keep_fine=False)
    return net


def with_leak(net: nn.Sequential, leak: float) -> nn.Sequential:
    """Return the network as `advise` proposes: the two lines of the document."""
    net = nn.Sequential(*(gwt.Leak(each, leak) if isinstance(each, nn.ReLU) else each for each in net))
    gwt.init_(net, weights="orthogonal", keep_fine=False)
    return net


def draw_directions(ax: Axes, walk: gwt.GradientWalk, colour: str) -> None:
    """Draw how many directions the gradients of the batch span, from the output back to the first layer."""
    ax.plot(np.arange(len(walk.layers) - 1, -1, -1), walk.directions, color=colour, lw=2)


def main() -> None:
    """Measure, train and draw."""
    torch.set_num_threads(1)
    x, y = digits()
    leak = gw.leak_for("relu", WIDTH, DEPTH)
    figure, panels = canvas(1, 2, (9, 3.4))
    direction_panel, loss_panel = panels[0]
    for label, colour in (("init_(net)", RED), (f"Leak(ReLU, {leak:g}) and orthogonal weights", BLUE)):
        net = relu_network() if colour == RED else with_leak(relu_network(), leak)
        walk = gwt.probe(net, x[:BATCH], lambda output: nn.functional.cross_entropy(output, y[:BATCH]))
        draw_directions(direction_panel, walk, colour)
        history = losses(net, x, y)
        loss_panel.plot(range(1, STEPS + 1), history, color=colour, lw=1.5, label=label)
        print(f"{label}: {walk.verdict}\nloss {np.mean(history[-20:]):.3f}")
    direction_panel.set(xlabel="layers travelled back from the output", title=f"Gradients through {DEPTH} layers")
    direction_panel.set(ylabel="directions that they span", ylim=(0, None))
    loss_panel.axhline(np.log(10), color=BLACK, lw=0.8, ls=":", label="chance, ln 10")
    loss_panel.set(xlabel="step", ylabel="training loss", ylim=(0, None), title="The same networks, training")
    loss_panel.legend(frameon=False, fontsize=9)
    figure.savefig(OUT, dpi=150)
    print(OUT.name)


if __name__ == "__main__":
    main()

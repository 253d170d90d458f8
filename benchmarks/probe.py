"""The cost of `probe`: one call against one training step of the same network on the same batch, timed in turns."""

import numpy as np
import torch
from setting import Answer, Spread, Table, main, number, seconds
from steps import BATCH, DEPTH, WIDTH, inputs, loss, network, training

from gradwalk.torch import probe


def check() -> None:
    """Compare the final log-norm with that of autograd's gradients at the first and the last layer."""
    model, x = network(), inputs()
    deltas = {}
    for place in (0, len(model) - 1):
        model[place].register_full_backward_hook(lambda _, __, out, place=place: deltas.update({place: out[0]}))
    loss(model(x.requires_grad_())).backward()
    first, last = (torch.linalg.vector_norm(deltas[place], dim=1).log() for place in (0, len(model) - 1))
    assert np.isclose(probe(network(), inputs(), loss).log_norm[0], (first - last).mean().item(), atol=1e-3)


def measure(quick: bool) -> Answer:
    """Return the cost of a probe in training steps."""
    check()
    model, x = network(), inputs()
    training(model, x, 10)
    pairs = [(seconds(lambda: probe(model, x, loss)), training(model, x, 1)) for _ in range(3 if quick else 31)]
    ours, theirs = (Spread.of(side) for side in zip(*pairs, strict=True))
    ratio = Spread.of([our / their for our, their in pairs])
    table = Table("probe against one training step", ("net", "probe, ms", "step, ms", "ratio"))
    table.add(f"{DEPTH} x {WIDTH}, batch {BATCH}", number(1e3 * ours.median), number(1e3 * theirs.median), ratio)
    return Answer([table], [], [{"probe": vars(ours), "step": vars(theirs), "ratio": vars(ratio)}])


if __name__ == "__main__":
    main(__doc__, measure)

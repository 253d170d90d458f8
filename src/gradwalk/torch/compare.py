"""`compare`: the walk of the gradient through one model under several initialisations, side by side."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from gradwalk.display import Shown, axes_of, html_row
from gradwalk.gains import UnsteadyWarning
from gradwalk.torch.follow import check_materialised, unwrapped
from gradwalk.torch.given import Given
from gradwalk.torch.init import init_
from gradwalk.torch.layers import sort_out
from gradwalk.torch.losses import Loss
from gradwalk.torch.measurement import Inputs
from gradwalk.torch.probe import probed
from gradwalk.torch.trace import Trace
from gradwalk.torch.undisturbed import undisturbed
from gradwalk.torch.verdict import times
from gradwalk.torch.walk import GradientWalk

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEAD = ("initialization", "status", "first / last", "lowest", "highest", "log-norm", "predicted")
_COLOURS = ("#1B1F24", "#A86C00", "#008A64", "#0067A3")


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Shown):
    """The walks of one model under several initialisations; prints as a table.

    Attributes:
        walks: by the name of the initialisation: "own", "kaiming", "orthogonal" and "gradwalk".
    """

    walks: dict[str, GradientWalk]

    def columns(self) -> dict[str, list[Any]]:
        """Return the log-norms per layer as named columns, one per initialization, ready for pandas.DataFrame."""
        layers = list(next(iter(self.walks.values())).layers)
        return {"layer": layers, **{name: walk.log_norm.tolist() for name, walk in self.walks.items()}}

    def __repr__(self) -> str:
        return f"Comparison({', '.join(f'{name}: {walk.status}' for name, walk in self.walks.items())})"

    def _cells(self) -> list[tuple[str, ...]]:
        return [_HEAD, *(_row(name, walk) for name, walk in self.walks.items())]

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
        )

    def _repr_html_(self) -> str:
        head, *body = self._cells()
        rows = [html_row("th", head), *(html_row("td", row) for row in body)]
        return f"<table>{''.join(rows)}</table>"

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the norm of the gradient from the output back, one line per initialization, and return the axes."""
        panel = axes_of(ax)
        for (name, walk), colour in zip(self.walks.items(), _COLOURS, strict=True):
            logs = np.array([point.log_norm for point in walk.stream]) if walk.stream else walk.log_norm
            order = np.arange(len(logs), 0, -1)
            norms = np.exp(np.clip(logs[::-1], -690, 690))
            panel.plot(order, norms, color=colour, linewidth=1.5, label=f"{name}: {walk.status}")
            panel.set_xlim(max(len(logs), 2), 1)
        panel.axhline(1.0, color="#000000", linewidth=0.6)
        place = "place on the stream" if next(iter(self.walks.values())).stream else "weight layer"
        panel.set(yscale="log", xlabel=f"{place}, from the output back", ylabel=r"$|\delta_d|\,/\,|\delta_D|$")
        panel.legend(frameon=False)
        return panel


def compare(model: nn.Module, inputs: Inputs, loss_fn: Loss, *, activation: Given = None) -> Comparison:
    """Return the walks of a model under its own weights, Kaiming's, orthogonal ones and gradwalk's; it stays as it was.

    Kaiming's (normal, by fan-in, for ReLU) and orthogonal weights (of gain 1) go to all weight layers that are free to
    be drawn, gradwalk's to those that `init_` draws. Weights are drawn from torch's random state, which is restored, as
    are weights, buffers and gradients.

    Args:
        model: any torch.nn.Module.
        inputs: a tensor, a tuple of arguments or a dict of keywords, with examples along the first dimension.
        loss_fn: returns the loss of the model's output, a scalar.
        activation: the one that a layer reads where it cannot be determined: one for all of them, or a mapping from
            names or patterns such as "decoder.*" to activations.

    Returns:
        One walk per initialisation, in a table.

    Raises:
        ValueError: as `probe`.

    >>> net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> list(compare(net, torch.eye(8), lambda y: y.square().sum()).walks)
    ['own', 'kaiming', 'orthogonal', 'gradwalk']
    """
    model = unwrapped(model, "compare")
    check_materialised(model.modules(), "compare")
    schemes: dict[str, Callable[[], object]] = {
        "own": lambda: None,
        "kaiming": lambda: _fill(model, lambda w: nn.init.kaiming_normal_(w, nonlinearity="relu")),
        "orthogonal": lambda: _fill(model, _orthogonal_),
        "gradwalk": lambda: _init(model, activation, inputs),
    }
    walks = {}
    for name, draw in schemes.items():
        with _restored(model):
            draw()
            walks[name] = probed(model, inputs, loss_fn, activation, "compare")
    return Comparison(walks)


@contextmanager
def _restored(model: nn.Module) -> Iterator[None]:
    """Restore the weights, buffers and the random state on exit."""
    values = [(p, p.detach().clone()) for p in model.parameters()]
    with undisturbed(list(model.modules())):
        try:
            yield
        finally:
            with torch.no_grad():
                for parameter, value in values:
                    parameter.copy_(value)


def _fill(model: nn.Module, fill: Callable[[torch.Tensor], object]) -> None:
    trace = Trace(model)
    objections, _ = sort_out(trace)
    for module, name in trace.names.items():
        if name in objections and objections[name] is None:
            weight = module.weight
            assert isinstance(weight, torch.Tensor)
            fill(weight)


def _orthogonal_(weight: torch.Tensor) -> None:
    precise = weight.to(torch.promote_types(weight.dtype, torch.float32))  # half precision has no QR decomposition
    with torch.no_grad():
        weight.copy_(nn.init.orthogonal_(precise.detach()))


def _init(model: nn.Module, activation: Given, inputs: Inputs) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsteadyWarning)  # the verdict of the walk has it
        init_(model, activation, example=inputs)


def _row(name: str, walk: GradientWalk) -> tuple[str, ...]:
    logs = [point.log_norm for point in walk.stream] or walk.log_norm.tolist() or [0.0]
    start = walk.stream[0].name if walk.stream else next(iter(walk.layers), "")
    predicted = start in walk.layers[:1]  # else the prediction is of another place than the log-norm beside it
    band = f"{walk.predicted[0]:.2f} ± {(walk.high[0] - walk.low[0]) / 2:.2f}" if predicted else "-"
    numbers = (times(walk.final), times(min(logs)), times(max(logs)), f"{walk.final:.2f}")
    return (name, walk.status, *numbers, "-" if "nan" in band else band)

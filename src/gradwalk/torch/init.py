"""`init_`: draw the weights of a whole model so that its gradient does an unbiased walk, and report on it."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import nn

from gradwalk import checks
from gradwalk.activations import Activation
from gradwalk.checks import Weights
from gradwalk.gains import GainEstimate, UnsteadyWarning, solve_gain, unsteady_message
from gradwalk.torch.layers import Layers, LeftAlone, WeightLayer, layers_of
from gradwalk.torch.random_walk import fill_
from gradwalk.torch.signals import Note
from gradwalk.torch.tables import init_table
from gradwalk.torch.weight_layers import output_rows


class InitRow(NamedTuple):
    """What `init_` did to one layer.

    drift: the mean change of the log-norm over this layer, 0 by construction, None outside the theory. exact: whether
    that holds for this layer exactly, or on average over the walk and to within the error of the gain.
    """

    name: str
    shape: tuple[int, ...]
    activation: str
    gain: float
    std: float
    drift: float | None
    exact: bool
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True)
class InitReport:
    """What `init_` did: one row per layer, the modules it left alone, and its remarks; prints as a table."""

    rows: tuple[InitRow, ...]
    left_alone: tuple[LeftAlone, ...]
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        return init_table(self)


def init_(
    model: nn.Module,
    activation: str | Activation | None = None,
    *,
    example: Any = None,
    weights: Weights = "gaussian",
    generator: torch.Generator | None = None,
) -> InitReport:
    """Initialise all Linear and convolution layers of a model in place so that its gradient does an unbiased walk.

    Each layer gets the gain of the activation whose output it reads, at its fan-in; biases become 0. Where the gain
    depends on depth, the walk has one step fewer than the longest path has weight layers. A layer behind a norm, a
    residual connection or attention, or whose output goes into one, gets the gain of a walk of one step, and the report
    marks it as outside the theory. `activation` and `example` are as for `find_layers`: the model is run once, on the
    example, unless it is a plain `nn.Sequential` or no example is given. Warns with UnsteadyWarning where no gain keeps
    networks of that depth together.

    >>> net = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> [round(row.gain, 4) for row in init_(net).rows]
    [1.0673, 2.0236]
    """
    checks.one_of("init_", "weights", weights, checks.WEIGHTS)
    layers = layers_of(model, activation, example, "init_")
    if not layers.weight_layers:
        reasons = "; ".join(dict.fromkeys(f"{each.kind}: {each.why}" for each in layers.left_alone))
        raise ValueError(f"init_: no layer of {type(model).__name__} can be initialised ({reasons or 'it has none'})")
    walks = _walks(layers)
    estimates = {walk: solve_gain(*walk, weights=weights) for walk in set(walks)}
    rows = tuple(_row(layer, estimates[walk], weights) for layer, walk in zip(layers.weight_layers, walks, strict=True))
    with torch.no_grad():
        for layer, row in zip(layers.weight_layers, rows, strict=True):
            _draw_(layer, row.std, weights, generator)
    remark = _unsteady(estimates, weights)
    if remark:
        warnings.warn(f"init_: {remark}", UnsteadyWarning, stacklevel=2)
    return InitReport(rows, tuple(layers.left_alone), (remark,) if remark else ())


class _Walk(NamedTuple):
    """What the gain of a layer depends on."""

    activation: Activation
    fan_in: int
    steps: int


def _walks(layers: Layers) -> list[_Walk]:
    steps = max(layers.depth - 1, 1)
    return [_Walk(each.activation, each.fan_in, 1 if each.outside else steps) for each in layers.weight_layers]


def _unsteady(estimates: Mapping[_Walk, GainEstimate], weights: Weights) -> str | None:
    """Return a sentence on the walk that spreads most among those that are unsteady, if it is past serviceable."""
    unsteady = [walk for walk, estimate in estimates.items() if estimate.kind == "unsteady"]
    if not unsteady:
        return None
    worst = max(unsteady, key=lambda walk: estimates[walk].spread)
    return unsteady_message(
        worst.activation, worst.fan_in, worst.steps, spread=estimates[worst].spread, weights=weights
    )


def _row(layer: WeightLayer, estimate: GainEstimate, weights: Weights) -> InitRow:
    shape = tuple(_weight(layer).shape)
    widens = weights == "orthogonal" and shape[0] > layer.fan_in  # the gain is that of a square matrix
    return InitRow(
        name=layer.name,
        shape=shape,
        activation=layer.activation.name,
        gain=estimate.value,
        std=estimate.value / math.sqrt(layer.fan_in),
        drift=None if layer.outside else 0.0,
        exact=estimate.kind == "neutral" and not layer.notes and not widens,
        notes=layer.notes,
    )


def _weight(layer: WeightLayer) -> torch.Tensor:
    weight = layer.module._parameters["weight"]
    assert weight is not None
    return weight


def _draw_(layer: WeightLayer, std: float, weights: Weights, generator: torch.Generator | None) -> None:
    """Draw the weights of a layer, group by group where that matters, and set its bias to 0."""
    weight, bias = _weight(layer), layer.module.bias
    if weights == "gaussian":
        fill_(weight, std, weights, generator)
    else:
        for group in weight.chunk(int(getattr(layer.module, "groups", 1))):  # along the first axis in all layers
            fill_(output_rows(layer.module, group), std, weights, generator)
    if isinstance(bias, torch.Tensor):
        bias.zero_()

"""Steps of a walk through dense layers by a closed form, those of all layers of one shape at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from gradwalk.activations import Activation, Array
from gradwalk.checks import Weights
from gradwalk.theory import kind, step
from gradwalk.torch.calls import Call
from gradwalk.torch.conditional import Law, Sums, dense_law, sums_of, together
from gradwalk.torch.draws import all_slopes, weights_kinds
from gradwalk.torch.norms import Rooms, far_inside, is_single, parts, rooms_of_thread
from gradwalk.torch.passing import Unit
from gradwalk.torch.weight_layers import fan_in, is_dense, output_rows

SLOPES = 1.25  # how much the slopes add to the variance of a step: nothing for linear units, a quarter for ReLU


class Point(NamedTuple):
    """A place where the gradient is measured: what autograd knows it by, the gradient, and ln of its norms.

    call, norms, weight, square: the run of a layer, the norms of the gradient's rows, the weight of the layer and the
    mean square of that; none at a sum.
    """

    at: Tensor | GradientEdge
    delta: Tensor
    logs: Array
    shift: float
    call: Call | None = None
    norms: Tensor | None = None
    weight: Tensor | None = None
    square: float = math.nan


class Step(NamedTuple):
    """The expected change of ln |delta| over a step, the mean over the batch, and its variance.

    typical, luck: mean and variance of the step over all networks with weights of this scale.
    """

    change: float
    variance: float
    typical: float
    luck: float


class Link(NamedTuple):
    """A step with a closed form: a layer, the dense one above it, with the activation that the latter reads."""

    lower: Point
    upper: Point
    activation: Activation | None

    @property
    def call(self) -> Call:
        """The run of the upper layer."""
        assert self.upper.call is not None
        return self.upper.call


@dataclass(frozen=True)
class Steps:
    """Some steps, and how many directions the gradients span at the layers above them, in the order of the links."""

    steps: list[Step]
    directions: list[float]


def is_closed(lower: Point, upper: Point) -> bool:
    """Return whether a closed form holds where nothing but activations lie between: the layer above is dense."""
    if lower.call is None or upper.call is None:
        return False
    shape = upper.call.input.shape
    return (
        is_dense(upper.call.module) and len(shape) == 2 and shape == lower.delta.shape and shape[0] == len(lower.logs)
    )


def closed_steps(links: Sequence[Link]) -> Steps:
    """Return the steps of these links; those of one shape are computed together."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for place, link in enumerate(links):
        tensors = link.call.input, link.call.output, link.upper.delta
        groups.setdefault(tuple((each.shape, each.dtype, each.device) for each in tensors), []).append(place)
    steps: dict[int, Step] = {}
    directions: dict[int, float] = {}
    for group in groups.values():
        own = _Group([links[place] for place in group])
        steps.update(zip(group, own.steps(), strict=True))
        directions.update(zip(group, own.directions.tolist(), strict=True))
    return Steps([steps[place] for place in range(len(links))], [directions[place] for place in range(len(links))])


class _Group:
    """Links of one shape."""

    def __init__(self, links: list[Link]) -> None:
        self.links = links
        self.calls = [link.call for link in links]
        norms = torch.stack([link.upper.norms for link in links if link.upper.norms is not None])
        self.unit = Unit.of(norms, links[0].upper.delta.dtype)
        self.units = self.calls[0].input.shape[-1]
        weights = [output_rows(link.call.module, link.upper.weight) for link in links if link.upper.weight is not None]
        self.kinds = weights_kinds(weights)

    def steps(self) -> list[Step]:
        """Return the steps."""
        law = self._law()
        logs = np.stack([link.upper.logs for link in self.links])
        means, variances = law.mean.cpu().numpy(), law.variance.cpu().numpy()
        with np.errstate(invalid="ignore"):
            changes = row_means(means + logs - logs)  # not a number where an example has no gradient
        typical, spread = row_means(means), SLOPES * row_means(variances)
        pooled, alike = law.pooled.cpu().numpy(), law.alike.cpu().numpy()
        steps = []
        for n, link in enumerate(self.links):
            own = _typical(link, self.kinds[n]) or (float(typical[n]), float(spread[n]))
            steps.append(Step(float(changes[n]), float(pooled[n]), own[0], own[1] * float(alike[n])))
        return steps

    @property
    def directions(self) -> Array:
        """How many directions the gradients above span."""
        width = self.links[0].upper.delta.shape[-1]
        numbers: Array = self.unit.directions(self.sums.alike, width).cpu().numpy()
        return numbers

    def _law(self) -> Law:
        sizes = torch.tensor([link.upper.square for link in self.links], dtype=torch.float64)
        orthogonal = torch.tensor([each == "orthogonal" for each in self.kinds])
        return dense_law(self.sums, self.units, *(each.to(self.unit.norms.device) for each in (sizes, orthogonal)))

    @cached_property
    def sums(self) -> Sums:
        """The sums over the units, computed for some layers at a time."""
        rooms, ones = rooms_of_thread(), torch.ones_like(self.calls[0].input)
        return together([self._sums_of(part, rooms, ones) for part in parts(range(len(self.links)), ones.numel())])

    def _sums_of(self, part: list[int], rooms: Rooms, ones: Tensor) -> Sums:
        own = slice(part[0], part[-1] + 1)
        calls, links = self.calls[own], self.links[own]
        inputs = [call.input for call in calls]
        slopes = all_slopes(inputs, [link.lower.at for link in links], ones)
        unit, dtype = self.unit[own], self.unit.factors.dtype
        deltas = rooms.stacked("deltas", [link.upper.delta for link in links], dtype)
        outputs = _without_biases(rooms.stacked("outputs", [call.output for call in calls], dtype), calls)
        cosines = unit.cosines(deltas)
        along = unit.products(deltas, outputs).double()

        def sums(dtype: torch.dtype) -> Sums:
            h, steep = (rooms.stacked(f"{name} {dtype}", each, dtype) for name, each in (("h", inputs), ("s", slopes)))
            return sums_of(h, steep, along, cosines, "orthogonal" in self.kinds[own])

        found = sums(torch.float32) if is_single(ones) else None
        safe = found is not None and far_inside(found.length) and far_inside(found.total)
        return found if found is not None and safe else sums(torch.float64)


def _without_biases(outputs: Tensor, calls: list[Call]) -> Tensor:
    """Subtract the biases from the outputs of some layers, in place."""
    biases = [call.module.bias for call in calls]
    if not any(isinstance(each, Tensor) for each in biases):
        return outputs
    none = torch.zeros_like(outputs[0, 0])
    with torch.no_grad():
        return outputs.sub_(torch.stack([each if isinstance(each, Tensor) else none for each in biases])[:, None])


def _typical(link: Link, weights: Weights) -> tuple[float, float] | None:
    """Return mean and variance of a step over all networks with weights of this scale; None for those of this network.

    For others than neutral activations they depend on the forward pass, and are taken from this network.
    """
    f, size = link.activation, link.upper.square
    if f is None or kind(f) != "neutral" or not size:
        return None
    width = fan_in(link.call.module)
    whole = step(f, width, weights=weights)
    return math.log(size * width) / 2 + whole.drift / 2, whole.variance / 4


def row_means(values: Array) -> Array:
    """Return the mean of each row over what is finite in it, NaN if nothing is."""
    means: Array = values.mean(axis=1) if values.shape[1] else np.full(len(values), math.nan)
    for row in np.flatnonzero(~np.isfinite(means)):
        finite = values[row][np.isfinite(values[row])]
        means[row] = finite.mean() if len(finite) else math.nan
    return means

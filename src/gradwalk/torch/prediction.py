"""The predicted walk of one network, given the scale of its weights and its forward pass.

Going back, the gradient at each point is predicted from the measured ones above it: by a closed form between two dense
layers with activations between, else by redrawing the weights in between. The errors of these steps are independent of
those above, so that their variances add up, at any depth.
"""

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from gradwalk.activations import Activation, Array
from gradwalk.checks import Weights
from gradwalk.theory import kind, step
from gradwalk.torch.conditional import dense_law
from gradwalk.torch.draws import DRAWS, drawn_gradients, slopes, weights_kinds
from gradwalk.torch.graph import Node, Op
from gradwalk.torch.measurement import Call, Measured
from gradwalk.torch.norms import example_norms, parts
from gradwalk.torch.web import Sources, sources
from gradwalk.torch.weight_layers import fan_in, is_dense, output_rows

_SLOPES = 1.25  # how much the slopes add to the variance of a step: nothing for linear units, a quarter for ReLU
BAND = 1.96  # standard deviations on either side: 95 %


@dataclass(frozen=True)
class Prediction:
    """Mean and standard deviation of the log-norm per layer, layer 1 first; NaN where unknown.

    bias, luck: mean and standard deviation of the final log-norm over all networks with weights of this scale, without
    what is particular to this one; NaN unless the layers are a chain. reasons: per layer, why nothing is predicted
    there, "" elsewhere.
    """

    mean: Array
    sd: Array
    bias: float
    luck: float
    reasons: tuple[str, ...]


class Point(NamedTuple):
    """A place where the gradient is measured: what autograd knows it by, the gradient, and ln of its norms.

    call, weight, square: the run of a layer, its weight and the mean square of that; none at a sum.
    """

    at: Tensor | GradientEdge
    delta: Tensor
    logs: Array
    shift: float
    call: Call | None = None
    weight: Tensor | None = None
    square: float = math.nan


class Step(NamedTuple):
    """The expected ln |delta| per example, and the variance of its mean over the batch.

    typical, luck: mean and variance of the step over all networks with weights of this scale.
    """

    mean: Array
    variance: float
    typical: float
    luck: float


def predict(
    measured: Measured, nodes: list[Node], reads: dict[int, Activation | None], excluded: Callable[[Call], str]
) -> Prediction:
    """Return the predicted walk.

    reads: the activation that the layers read, by node. excluded: why a layer's weights follow no law, "" if they do.
    """
    points = _points(measured, nodes)
    web = sources(nodes, points, measured.ends)
    reasons = {place: _reason(points, web[place], excluded) for place in points}
    steps = _Steps(points, web, reads)
    known = [place for place in points if not reasons[place] and web[place].layers]
    found = steps.closed([place for place in known if steps.is_closed(place)])
    for place in known:
        if place not in found:
            found[place] = steps.drawn(place)
    walks = _accumulated(points, web, reasons, found, measured)
    return _prediction(measured, walks, web, found)


def _points(measured: Measured, nodes: list[Node]) -> dict[int, Point]:
    """Return the weight layers and the sums at which the gradient is measured, by their nodes."""
    points = {}
    for place, call in enumerate(measured.calls):
        if call.node is not None:
            delta, shift = measured.deltas[place].detach(), float(measured.shifts[place])
            weight, square = measured.weights[place], float(measured.weight_squares[place])
            points[call.node] = Point(call.output, delta, measured.logs[:, place], shift, call, weight, square)
    for node, (station, delta) in measured.stations.items():
        if nodes[node].op is Op.SUM:
            norms = example_norms(delta, measured.examples).cpu().numpy()
            with np.errstate(divide="ignore"):
                points[node] = Point(station.edge, delta.detach(), np.log(norms), 0.0)
    return dict(sorted(points.items()))


def _reason(points: dict[int, Point], above: Sources, excluded: Callable[[Call], str]) -> str:
    """Return why the gradient at a point cannot be predicted from those above it."""
    if above.unclear:
        return above.unclear
    for layer in above.layers:
        call = points[layer].call
        assert call is not None
        if call.input._version != call.version:
            return f"the input of {call.name} was changed in place"
        why = excluded(call)
        if why:
            return f"{call.name}: {why}"
    return ""


class _Steps:
    """The steps of a walk from point to point."""

    def __init__(self, points: dict[int, Point], web: dict[int, Sources], reads: dict[int, Activation | None]) -> None:
        self.points, self.web, self.reads = points, web, reads
        self.random = torch.Generator().manual_seed(_seed(points))

    def is_closed(self, place: int) -> bool:
        """Return whether a closed form holds: one dense layer above, and only activations between."""
        above, point = self.web[place], self.points[place]
        if len(above.layers) != 1 or above.sums or above.ends or not above.elementwise or point.call is None:
            return False
        call = self.points[above.layers[0]].call
        assert call is not None
        shape = call.input.shape
        return is_dense(call.module) and len(shape) == 2 and shape == point.delta.shape and shape[0] == len(point.logs)

    def closed(self, places: list[int]) -> dict[int, Step]:
        """Return the steps that have a closed form; some layers of the same shape are computed together."""
        groups: dict[tuple[torch.Size, torch.Size], list[int]] = {}
        for place in places:
            upper = self.points[self.web[place].layers[0]]
            assert upper.call is not None
            groups.setdefault((upper.call.input.shape, upper.delta.shape), []).append(place)
        together = [part for (read, _), group in groups.items() for part in parts(group, read.numel())]
        kinds = self._kinds(places)
        return {place: each for part in together for place, each in self._closed(part, kinds).items()}

    def _kinds(self, places: list[int]) -> dict[int, Weights]:
        """Return what the weights above these places look like."""
        uppers = [self.points[self.web[place].layers[0]] for place in places]
        weights = [
            output_rows(each.call.module, each.weight) for each in uppers if each.call and each.weight is not None
        ]
        return dict(zip(places, weights_kinds(weights), strict=True))

    def _closed(self, places: list[int], kinds: dict[int, Weights]) -> dict[int, Step]:
        uppers = [self.points[self.web[place].layers[0]] for place in places]
        calls = [upper.call for upper in uppers if upper.call is not None]
        sizes = np.array([upper.square for upper in uppers])
        law = dense_law(
            _stacked([call.input for call in calls]),
            _products(calls),
            _stacked([upper.delta for upper in uppers]),
            torch.stack([self._slopes(place, call) for place, call in zip(places, calls, strict=True)]),
            torch.from_numpy(sizes).to(uppers[0].delta.device),
            torch.tensor([kinds[place] == "orthogonal" for place in places], device=uppers[0].delta.device),
        )
        means, pooled = law.mean.cpu().numpy(), law.pooled.cpu().numpy()
        variances, alike = law.variance.cpu().numpy(), law.alike.cpu().numpy()
        return {
            place: Step(
                means[n] + uppers[n].logs,
                float(pooled[n]),
                *self._typical(place, float(sizes[n]), kinds[place], means[n], variances[n], float(alike[n])),
            )
            for n, place in enumerate(places)
        }

    def _slopes(self, place: int, call: Call) -> Tensor:
        return slopes(call.input, self.points[place].at)

    def _typical(
        self, place: int, size: float, weights: Weights, means: Array, variances: Array, alike: float
    ) -> tuple[float, float]:
        """Return mean and variance of the step over all networks with weights of this scale.

        For others than neutral activations it depends on the forward pass, and is that of this network. variances: of
        the step given the slopes. alike: the share of them that is common to the examples.
        """
        upper = self.web[place].layers[0]
        f, call = self.reads.get(upper), self.points[upper].call
        assert call is not None
        if f is None or kind(f) != "neutral" or not size:
            return _mean(means), _SLOPES * _mean(variances) * alike
        width = fan_in(call.module)
        whole = step(f, width, weights=weights)
        return math.log(size * width) / 2 + whole.drift / 2, whole.variance / 4 * alike

    def drawn(self, place: int) -> Step:
        """Return a step by redrawing the weights above."""
        above, point = self.web[place], self.points[place]
        uppers = [self.points[layer] for layer in above.layers]
        shift, largest = uppers[0].shift, max(float(upper.delta.abs().max()) for upper in uppers)
        partial = bool(above.sums) or above.ends
        aligned = all(upper.shift == shift for upper in uppers) and (not partial or point.shift == shift)
        if not aligned or not 0 < largest < math.inf:
            return Step(np.full(len(point.logs), math.nan), math.nan, math.nan, math.nan)
        calls, deltas = [upper.call for upper in uppers if upper.call], [upper.delta / largest for upper in uppers]
        own = point.delta / largest if partial else None
        gradients = drawn_gradients(calls, deltas, point.at, own, self.random)
        norms = torch.stack([example_norms(gradient, len(point.logs)) for gradient in gradients]).cpu().numpy()
        with np.errstate(divide="ignore"):
            logs = np.where(norms > 0, np.log(norms), math.nan) + math.log(largest) + shift
        mean = logs.mean(axis=0)
        counted = np.isfinite(mean)
        variance = float(np.var(logs[:, counted].mean(axis=1), ddof=1)) if counted.any() else math.nan
        start = above.parent
        assert start is not None
        return Step(mean, variance * (1 + 1 / DRAWS), _mean(_minus(mean, self.points[start].logs)), _SLOPES * variance)


def _seed(points: dict[int, Point]) -> int:
    """Return a seed that is the same for the same walk, and as good as random for others."""
    return zlib.crc32(b"".join(np.ascontiguousarray(point.logs).tobytes() for point in points.values()))


class _Walk(NamedTuple):
    """The predicted mean at a point, its variance, and the reason where there is none."""

    mean: float
    variance: float
    reason: str = ""


def _accumulated(
    points: dict[int, Point], web: dict[int, Sources], reasons: dict[int, str], steps: dict[int, Step], m: Measured
) -> dict[int, _Walk]:
    """Return the predicted walk at all points, from the output back."""
    walks: dict[int, _Walk] = {}
    for place in sorted(points, reverse=True):
        start, logs = web[place].parent, points[place].logs
        if reasons[place]:
            walks[place] = _Walk(math.nan, math.nan, reasons[place])
        elif start is None:
            walks[place] = _Walk(_mean(_minus(logs, m.reference)), 0.0)
        else:
            before, move = walks[start], steps.get(place, Step(logs, 0.0, 0.0, 0.0))
            mean = before.mean + _mean(_minus(move.mean, points[start].logs))
            walks[place] = _Walk(mean, before.variance + move.variance, before.reason)
    return walks


def _prediction(
    measured: Measured,
    walks: dict[int, _Walk],
    web: dict[int, Sources],
    steps: dict[int, Step],
) -> Prediction:
    unseen = _Walk(math.nan, math.nan, "it runs inside a module that is not looked into")
    path = [unseen if call.node is None else walks[call.node] for call in measured.calls]
    chain = [call.node for call in measured.calls]
    single = all(node in web and not web[node].sums and len(web[node].layers) <= 1 for node in chain)
    taken = [steps[node] for node in chain[:-1] if node in steps]
    whole = single and len(taken) == len(chain) - 1
    bias = sum(each.typical for each in taken) if whole else math.nan
    luck = math.sqrt(sum(each.luck for each in taken)) if whole else math.nan
    mean = np.array([walk.mean for walk in path])
    sd = np.sqrt(np.array([walk.variance for walk in path]))
    return Prediction(mean, sd, bias, luck, tuple(walk.reason for walk in path))


def _minus(one: Array, other: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.asarray(one - other)


def _stacked(tensors: list[Tensor]) -> Tensor:
    return torch.stack([each.detach() for each in tensors])


def _mean(values: Array) -> float:
    """Return the mean of those that are finite, NaN if none is."""
    mean = float(values.sum()) / max(len(values), 1)
    if math.isfinite(mean) and len(values):
        return mean
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else math.nan


def _products(calls: list[Call]) -> Tensor:
    """Return the outputs of dense layers without their biases."""
    biases = [call.module.bias for call in calls]
    added = [each if isinstance(each, Tensor) else call.output[0] * 0 for each, call in zip(biases, calls, strict=True)]
    outputs = _stacked([call.output for call in calls])
    return outputs.to(torch.promote_types(outputs.dtype, torch.float32)).sub_(_stacked(added)[:, None])

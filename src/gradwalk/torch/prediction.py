"""The predicted walk of one network, given the scale of its weights and its forward pass.

Going back, the gradient at each point is predicted from the measured ones above it: by a closed form between two dense
layers with activations between, else by redrawing the weights in between. The errors of these steps are independent of
those above, so that their variances add up, at any depth.
"""

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import torch

from gradwalk.activations import Activation, Array
from gradwalk.torch.calls import Call
from gradwalk.torch.closed import SLOPES, Link, Point, Step, closed_steps, is_closed, row_means
from gradwalk.torch.draws import DRAWS, drawn_gradients
from gradwalk.torch.graph import Node, Op
from gradwalk.torch.measurement import Measured
from gradwalk.torch.norms import example_norms
from gradwalk.torch.web import Sources, sources

BAND = 1.96  # standard deviations on either side: 95 %


@dataclass(frozen=True)
class Prediction:
    """Mean and standard deviation of the log-norm per layer, layer 1 first; NaN where unknown.

    bias, luck: mean and standard deviation of the final log-norm over all networks with weights of this scale, without
    what is particular to this one; NaN unless the layers are a chain. reasons: per layer, why nothing is predicted
    there, "" elsewhere. directions: how many the gradients span, by the place of the layer, where that was needed.
    """

    mean: Array
    sd: Array
    bias: float
    luck: float
    reasons: tuple[str, ...]
    directions: dict[int, float] = field(default_factory=dict)


def predict(
    measured: Measured,
    nodes: list[Node],
    reads: dict[int, Activation | None],
    excluded: Callable[[Call], str],
) -> Prediction:
    """Return the predicted walk.

    reads: the activation that the layers read, by node. excluded: why a layer's weights follow no law, "" if they do.
    """
    points = _points(measured, nodes)
    web = sources(nodes, points, measured.ends)
    reasons = {place: _reason(points, web[place], excluded) for place in points}
    steps = _Steps(points, web, reads)
    known = [place for place in points if not reasons[place] and web[place].layers]
    closed = [place for place in known if steps.is_closed(place)]
    links = [steps.link(place) for place in closed]
    together = closed_steps(links)
    found = dict(zip(closed, together.steps, strict=True))
    for place in known:
        if place not in found:
            found[place] = steps.drawn(place)
    walks = _accumulated(points, web, reasons, found, measured)
    directions = {id(link.call): number for link, number in zip(links, together.directions, strict=True)}
    return replace(
        _prediction(measured, walks, web, found),
        directions={place: directions[id(c)] for place, c in enumerate(measured.calls) if id(c) in directions},
    )


def _points(measured: Measured, nodes: list[Node]) -> dict[int, Point]:
    """Return the weight layers and the sums at which the gradient is measured, by their nodes."""
    points = {}
    for place, call in enumerate(measured.calls):
        if call.node is not None:
            delta, shift, norms = measured.deltas[place], float(measured.shifts[place]), measured.norms[place]
            weight, square = measured.weights[place], float(measured.weight_squares[place])
            points[call.node] = Point(call.output, delta, measured.logs[:, place], shift, call, norms, weight, square)
    for node, (station, delta) in measured.stations.items():
        if nodes[node].op is Op.SUM:
            lengths = example_norms(delta, measured.examples).cpu().numpy()
            with np.errstate(divide="ignore"):
                points[node] = Point(station.edge, delta, np.log(lengths), 0.0)
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
        above = self.web[place]
        alone = len(above.layers) == 1 and not above.sums and not above.ends and above.elementwise
        return alone and is_closed(self.points[place], self.points[above.layers[0]])

    def link(self, place: int) -> Link:
        """Return a step that has a closed form."""
        (upper,) = self.web[place].layers
        return Link(self.points[place], self.points[upper], self.reads.get(upper))

    def drawn(self, place: int) -> Step:
        """Return a step by redrawing the weights above."""
        above, point = self.web[place], self.points[place]
        uppers = [self.points[layer] for layer in above.layers]
        shift, largest = uppers[0].shift, max(float(upper.delta.abs().max()) for upper in uppers)
        partial = bool(above.sums) or above.ends
        aligned = all(upper.shift == shift for upper in uppers) and (not partial or point.shift == shift)
        if not aligned or not 0 < largest < math.inf:
            return Step(math.nan, math.nan, math.nan, math.nan)
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
        change = _mean(_minus(mean, self.points[start].logs))
        return Step(change, variance * (1 + 1 / DRAWS), change, SLOPES * variance)


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
            before, move = walks[start], steps.get(place)
            change = _mean(_minus(logs, points[start].logs)) if move is None else move.change
            variance = 0.0 if move is None else move.variance
            walks[place] = _Walk(before.mean + change, before.variance + variance, before.reason)
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


def _mean(values: Array) -> float:
    """Return the mean of those that are finite, NaN if none is."""
    return float(row_means(values[None])[0])

"""The plan of a network from its dataflow: the unbiased gain where the law of a layer is known, a reason where not.

- In a chain each layer gets the unbiased gain of the activation that it reads, at its fan-in and depth.
- Behind a norm the signal has unit variance, and the gain is that of a walk of one step.
- A layer whose output goes straight into a norm is left alone: its scale does not change the signal.
- What is behind sums, attention and unknown operations, or leads into them, is left alone.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import NamedTuple

from gradwalk import checks
from gradwalk.activations import Activation
from gradwalk.chains.choices import GivenActivations, Selection
from gradwalk.chains.graph import OUTPUT, Dataflow, Op, Reading
from gradwalk.checks import Weights
from gradwalk.gains import GainEstimate, Passage, layer_gain, unsteady_message
from gradwalk.plans import DEEP, LayerRole, LeftAlone, Plan, PlanRow
from gradwalk.theory import kind

_ORDINARY = (0.3, 2.5)  # gains of the usual initialisers: LeCun 1, Glorot about 1, He 1.41
_APART = 4.0  # how far a layer is from the others, in both scale and gain, that is scaled on purpose
_FREE = "a norm follows, so that its scale does not change the signal"


@dataclass(frozen=True)
class WeightLayer:
    """A layer with a kernel.

    kind: its class. std: the root mean square of the kernel. objection: why it is not drawn unless it is named.
    fixed: whether the gradient passes it through weights that stay as they are.
    """

    name: str
    kind: type
    shape: tuple[int, ...]
    fan_in: int
    std: float
    objection: str = ""
    fixed: bool = False
    note: str = ""


class Law(NamedTuple):
    """What the gain of a layer depends on; steps: the number of layers that its section of the walk goes over."""

    activation: Activation
    fan_in: int
    steps: int
    dropout: float


@dataclass(frozen=True)
class Draft:
    """A plan in the making: the layers of a network, and the rules that apply to each."""

    dataflow: Dataflow
    layers: Sequence[WeightLayer]
    others: tuple[LeftAlone, ...]
    weights: Weights
    given: GivenActivations
    selection: Selection

    def __post_init__(self) -> None:
        checks.one_of(self.selection.where, "weights", self.weights, checks.WEIGHTS)
        self.selection.check({layer.name: layer.kind for layer in self.layers})

    @cached_property
    def plan(self) -> Plan:
        """The plan."""
        rows = tuple(map(self._row, self.layers))
        return Plan(rows, self.others, self._remarks(), self._passage(rows))

    @cached_property
    def unsteady(self) -> str | None:
        """A sentence on the walk that spreads most among those that are unsteady, if it is past serviceable."""
        unsteady = [law for law, estimate in self._estimates.items() if estimate.kind == "unsteady"]
        if not unsteady:
            return None
        worst = max(unsteady, key=lambda law: self._estimates[law].spread)
        return unsteady_message(
            worst.activation,
            worst.fan_in,
            worst.steps,
            spread=self._estimates[worst].spread,
            weights=self.weights,
            dropout=worst.dropout,
        )

    def _remarks(self) -> tuple[str, ...]:
        idle = "No layer is drawn: the model stays as it is." if self.layers and not self._laws else None
        return tuple(remark for remark in (self.unsteady, idle) if remark)

    def _passage(self, rows: Sequence[PlanRow]) -> Passage | None:
        """Return the passage of gradients through the network as planned, None unless it is a deep chain."""
        if len(rows) < DEEP or not self._laws or not self._is_dense_chain():
            return None
        gains = {
            row.name: row.std * math.sqrt(layer.fan_in) if row.gain is None else row.gain
            for layer, row in zip(self.layers, rows, strict=True)
        }
        layers = [self._by_name[name] for name in self.dataflow.places]
        reads = [self._activation(layer) for layer in layers]
        widths = [layer.shape[-1] for layer in layers]
        return Passage.through(widths, reads, [gains[layer.name] for layer in layers], lambda: self.weights)

    def _is_dense_chain(self) -> bool:
        """Return whether the layers are dense, each reads the one before it alone, and no dropout is between them."""
        names = list(self.dataflow.places)
        readings = [self._readings[name] for name in names[1:]]
        return (
            set(names) == set(self._by_name)
            and all(layer.shape == (layer.fan_in, layer.shape[-1]) for layer in self.layers)
            and [self._links.get(name) for name in names[1:]] == names[:-1]
            and all(len(self._ends(self._by_name[name])) == 1 for name in names)
            and not any(reading.dropout or reading.log_factor or reading.notes for reading in readings)
        )

    @cached_property
    def _by_name(self) -> dict[str, WeightLayer]:
        return {layer.name: layer for layer in self.layers}

    # What each layer reads.

    @cached_property
    def _readings(self) -> dict[str, Reading]:
        return {name: self.dataflow.reading(name) for name in self.dataflow.places}

    def _activation(self, layer: WeightLayer) -> Activation | None:
        """Return the activation that a layer reads, the user's where it cannot be determined; None where unknown."""
        reading = self._readings.get(layer.name)
        given = self.given.of(layer.name)
        if reading is None:
            return given
        source = self.dataflow.nodes[reading.source]
        if source.op is not Op.UNKNOWN and reading.activation is not None:
            return reading.activation
        merged = source.op is Op.UNKNOWN and len(source.reads) != 1
        return None if merged and not self.given.by_name and not self.selection.names(layer.name) else given

    # Why layers are left alone.

    @cached_property
    def _reasons(self) -> dict[str, str]:
        return {layer.name: self._reason(layer) for layer in self.layers}

    def _reason(self, layer: WeightLayer) -> str:
        against = self.selection.reason_against(layer.name, layer.kind)
        if against:
            return against
        if self.selection.names(layer.name):
            if self._activation(layer) is None:
                where, why = self.selection.where, self._unreadable(layer)
                raise ValueError(f"{where}: what {layer.name!r} reads is not known ({why}); pass activation=")
            return ""
        reason = layer.objection or self._purposes.get(layer.name, "")
        return reason or self._outside[layer.name] or self._free(layer)

    @cached_property
    def _outside(self) -> dict[str, str]:
        """Why layers are outside the theory, "" for those that are not; found from the last layer to the first."""
        reasons: dict[str, str] = {}
        for layer in sorted(self.layers, key=lambda layer: self.dataflow.places.get(layer.name, -1), reverse=True):
            reasons[layer.name] = self._unreadable(layer) or self._obstacle(layer, reasons)
        return reasons

    def _unreadable(self, layer: WeightLayer) -> str:
        if self._activation(layer) is not None:
            return ""
        if layer.name not in self._readings:
            return "the calls of this model cannot be read"
        source = self.dataflow.nodes[self._readings[layer.name].source]
        return f"it reads the output of {source.label}" if source.op is Op.UNKNOWN else "it reads several activations"

    def _obstacle(self, layer: WeightLayer, reasons: Mapping[str, str]) -> str:
        """Return why the law ends above a layer, if it does before a norm or the output."""
        for end in self._ends(layer):
            node = self.dataflow.nodes[end] if end != OUTPUT else None
            if node is None or node.op is Op.NORM:
                continue
            if node.op is Op.UNKNOWN:
                return f"its output goes into {node.label}"
            if reasons.get(node.label) or node.label in self._fixed:
                return f"{node.label} above it is outside the theory"
        return ""

    def _ends(self, layer: WeightLayer) -> list[int]:
        place = self.dataflow.places.get(layer.name)
        return [] if place is None else [end for end, _ in self.dataflow.destinations(place)]

    @cached_property
    def _fixed(self) -> set[str]:
        return {layer.name for layer in self.layers if layer.fixed}

    def _free(self, layer: WeightLayer) -> str:
        ends = self.dataflow.destinations(self.dataflow.places[layer.name])
        norms = [end != OUTPUT and self.dataflow.nodes[end].op is Op.NORM and plain for end, plain in ends]
        return _FREE if norms and all(norms) else ""

    @cached_property
    def _purposes(self) -> dict[str, str]:
        return on_purpose({layer.name: (layer.std, layer.fan_in) for layer in self.layers})

    # The laws of those that are drawn.

    @cached_property
    def _laws(self) -> dict[str, Law]:
        drawn = [layer for layer in self.layers if not self._reasons[layer.name]]
        return {layer.name: self._law(layer) for layer in drawn}

    def _law(self, layer: WeightLayer) -> Law:
        reading, activation = self._readings.get(layer.name), self._activation(layer)
        assert activation is not None
        dropout = 0.0 if reading is None else round(reading.dropout, 12)
        steps = max(self._up.get(layer.name, 1) + self._down.get(layer.name, 1) - 2, 1)
        return Law(activation, layer.fan_in, steps, dropout)

    @cached_property
    def _estimates(self) -> dict[Law, GainEstimate]:
        return {
            law: layer_gain(law.activation, law.fan_in, law.steps, self.weights, law.dropout)
            for law in dict.fromkeys(self._laws.values())
        }

    @cached_property
    def _links(self) -> dict[str, str]:
        """The layer below each one, where the signal is not reset between them."""
        sources = {name: self.dataflow.nodes[reading.source] for name, reading in self._readings.items()}
        return {name: source.label for name, source in sources.items() if source.op is Op.WEIGHTS}

    @cached_property
    def _up(self) -> dict[str, int]:
        """The number of layers from the last reset of the signal up to each layer."""
        lengths: dict[str, int] = {}
        for name in self.dataflow.places:  # in the order of the forward pass
            lengths[name] = 1 + lengths.get(self._links.get(name, ""), 0)
        return lengths

    @cached_property
    def _down(self) -> dict[str, int]:
        """The number of layers from each layer up to the next reset of the signal."""
        lengths = dict.fromkeys(self.dataflow.places, 1)
        for name in reversed(self.dataflow.places):
            if (below := self._links.get(name)) is not None:
                lengths[below] = max(lengths[below], lengths[name] + 1)
        return lengths

    # The rows.

    def _row(self, layer: WeightLayer) -> PlanRow:
        activation, reason = self._activation(layer), self._reasons[layer.name]
        read = "?" if activation is None else activation.name
        row = PlanRow(layer.name, layer.shape, self._role(layer), read, layer.std, None, None, None, False, reason)
        if reason:
            return row
        law, reading = self._laws[layer.name], self._readings.get(layer.name)
        notes = [*(reading.notes if reading else ()), *[layer.note] * bool(layer.note)]
        gain = self._estimates[law].value
        return row._replace(
            proposed=gain / math.sqrt(layer.fan_in),
            gain=gain,
            drift=None if notes or reading is None else reading.log_factor,
            exact=kind(law.activation) == "neutral" and not self._widens(layer) and reading is not None,
            notes=tuple(notes),
        )

    def _widens(self, layer: WeightLayer) -> bool:
        """Return whether the gain, that of a square matrix, is inexact because an orthogonal one widens the signal."""
        return self.weights == "orthogonal" and math.prod(layer.shape) > layer.fan_in**2

    def _role(self, layer: WeightLayer) -> LayerRole:
        if layer.name not in self._readings or self._outside[layer.name]:
            return LayerRole.OUTSIDE
        if all(end == OUTPUT for end in self._ends(layer)):
            return LayerRole.HEAD
        source = self.dataflow.nodes[self._readings[layer.name].source]
        return LayerRole.NORMED if source.op is Op.NORM else LayerRole.CHAIN


def on_purpose(sizes: Mapping[str, tuple[float, int]]) -> dict[str, str]:
    """Return which layers are zero or clearly scaled on purpose, with the reason; given their std and fan-in.

    >>> on_purpose({"a": (0.1, 100), "b": (0.1, 100), "c": (0.001, 100)})
    {'c': 'scaled on purpose: its gain is 0.01, that of the others about 1'}
    """
    gains = {name: std * math.sqrt(fan_in) for name, (std, fan_in) in sizes.items() if std > 0}
    typical_std = median([sizes[name][0] for name in gains] or [1.0])
    typical_gain = median(gains.values() or [1.0])
    reasons = {name: "zero on purpose" for name, (std, _) in sizes.items() if std == 0}
    for name, gain in gains.items():
        ratios = sizes[name][0] / typical_std, gain / typical_gain
        if not _ORDINARY[0] < gain < _ORDINARY[1] and (max(ratios) < 1 / _APART or min(ratios) > _APART):
            reasons[name] = f"scaled on purpose: its gain is {gain:.2g}, that of the others about {typical_gain:.2g}"
    return reasons

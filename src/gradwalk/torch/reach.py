"""Which weight layers the laws reach: the role of each, and the reason where one is left alone."""

from collections.abc import Mapping
from functools import cached_property

from gradwalk.activations import Activation
from gradwalk.chains.choices import Selection
from gradwalk.plans import LayerRole
from gradwalk.torch.graph import Op
from gradwalk.torch.layers import UNDRAWABLE, Exclusion, Layers, WeightLayer
from gradwalk.torch.signals import Note
from gradwalk.torch.structure import OUTPUT, Structure, Sum, SumKind

_FREE = "a norm follows, so that its scale does not change the signal"
_READS = {
    Note.ATTENTION: "it reads the output of attention, or feeds it",
    Note.RECURRENT: "it reads the output of a recurrent module",
    Note.REPEATED: "it runs more than once",
}


class Reach:
    """The roles of a model's weight layers, and why each of them is left alone, "" for those that are drawn."""

    def __init__(self, layers: Layers, structure: Structure, purposes: Mapping[str, str], selection: Selection) -> None:
        self.layers, self.structure = layers.weight_layers, structure
        self.purposes, self.selection = purposes, selection
        nodes = structure.nodes
        self.places: dict[str, int] = {}
        for place, node in enumerate(nodes):
            if node.op is Op.WEIGHTS:
                self.places.setdefault(node.name, place)
        self.by_place = {self.places[layer.name]: layer for layer in self.layers if layer.name in self.places}

    @cached_property
    def sums(self) -> dict[str, Sum]:
        """The sum that each layer ends in, if that has more terms or branches than one: of several the largest."""
        ends: dict[str, Sum] = {}
        for each in self.structure.sums.values():
            if each.kind is SumKind.UNRELATED or each.ends.normed:
                continue
            for place in each.ends.layers:
                name = self.structure.nodes[place].name
                if name not in ends or each.blocks >= ends[name].blocks:
                    ends[name] = each
        return ends

    @cached_property
    def outside(self) -> dict[str, str]:
        """Why layers are outside the theory, "" for those that are not; from the last layer to the first."""
        reasons: dict[str, str] = {}
        for place in sorted(self.by_place, reverse=True):
            layer = self.by_place[place]
            reasons[layer.name] = self._unreadable(layer) or self._obstacle(place, reasons)
        return reasons

    @cached_property
    def reasons(self) -> dict[str, str]:
        """Why each layer is left alone, "" for those that are drawn."""
        return {layer.name: self._reason(layer) for layer in self.layers}

    def _reason(self, layer: WeightLayer) -> str:
        against = self.selection.reason_against(layer.name, type(layer.module))
        if against or layer.objection in UNDRAWABLE:
            return against or str(layer.objection)
        if self.selection.names(layer.name):
            if layer.activation is None and self.gate(layer) is None:
                raise ValueError(
                    f"{self.selection.where}: what {layer.name!r} reads is not known ({layer.why}); pass activation="
                )
            return ""
        objection = "" if layer.objection is None else str(layer.objection)
        return objection or self.purposes.get(layer.name, "") or self.outside[layer.name] or self._free(layer)

    def _free(self, layer: WeightLayer) -> str:
        ends = self.structure.destinations(self.places[layer.name])
        norms = [end != OUTPUT and self.structure.nodes[end].op is Op.NORM for end in ends]
        return _FREE if norms and all(norms) else ""

    def _unreadable(self, layer: WeightLayer) -> str:
        """Return why what a layer reads has no known law, if so."""
        if self.gate(layer) is not None:
            return ""
        notes = [text for note, text in _READS.items() if note in layer.notes]
        if layer.activation is None:
            return layer.why or "what it reads is not known"
        return notes[0] if notes else ""

    def gate(self, layer: WeightLayer) -> Activation | None:
        """Return the activation of the gated product that a layer reads, if it reads one of known law."""
        place = self.places.get(layer.name)
        return None if place is None else self.structure.gate(self.structure.read_by(place))

    def _obstacle(self, place: int, reasons: Mapping[str, str]) -> str:
        """Return why the law ends above a node, if it does before a norm, a residual sum or the output."""
        for end in self.structure.destinations(place):
            reason = "" if end == OUTPUT else self._obstacle_at(end, reasons)
            if reason:
                return reason
        return ""

    def _obstacle_at(self, end: int, reasons: Mapping[str, str]) -> str:
        node = self.structure.nodes[end]
        if node.op is Op.WEIGHTS:
            outside = node.name in self._fixed or reasons.get(node.name)
            return f"{node.name} above it is outside the theory" if outside else ""
        if node.op is Op.SUM:
            return self._obstacle_at_sum(self.structure.sums[end], reasons)
        if node.op is Op.PRODUCT and self.structure.gate(end) is not None:
            return self._obstacle(end, reasons)
        if node.op is Op.PRODUCT:
            return "its output is multiplied with another signal"
        return f"its output goes into {node.name}" if node.op in (Op.MIXING, Op.UNKNOWN) else ""

    def _obstacle_at_sum(self, each: Sum, reasons: Mapping[str, str]) -> str:
        if each.kind is SumKind.RESIDUAL:
            return ""
        if each.kind is SumKind.UNRELATED:
            return "its output is added to a signal of another source"
        if self._fixed & {self.structure.nodes[place].name for place in each.ends.layers}:
            return "its output is added to that of a frozen layer"
        return self._obstacle(each.place, reasons)

    @cached_property
    def _fixed(self) -> set[str]:
        return {layer.name for layer in self.layers if layer.objection in (Exclusion.FROZEN, Exclusion.ADAPTER)}

    def role(self, layer: WeightLayer) -> LayerRole:
        """Return the role of a layer."""
        place = self.places.get(layer.name)
        if place is None or self.outside[layer.name]:
            return LayerRole.OUTSIDE
        if place in self._inside:
            return LayerRole.BRANCH
        if all(end == OUTPUT for end in self.structure.destinations(place)):
            return LayerRole.HEAD
        return LayerRole.NORMED if Note.NORM in layer.notes else LayerRole.CHAIN

    @cached_property
    def _inside(self) -> set[int]:
        residual = [each for each in self.structure.sums.values() if each.kind is SumKind.RESIDUAL]
        return {place for each in residual for place in each.inside}

    def begins_with_norm(self, each: Sum) -> bool:
        """Return whether some layer inside a residual branch reads a norm."""
        return any(Note.NORM in self.by_place[place].notes for place in each.inside if place in self.by_place)

    def steps(self, layer: WeightLayer) -> int:
        """Return the number of steps of the walk over the section that a layer is in, from reset to reset."""
        return max(self._up[layer.name] + self._down.get(layer.name, 1) - 2, 1)

    @cached_property
    def _up(self) -> dict[str, int]:
        """The number of layers from the last reset of the signal up to each layer."""
        lengths: dict[str, int] = {}
        for layer in self.layers:
            linked = [lengths[name] for name in layer.reads if name in lengths] if self.continues(layer) else []
            lengths[layer.name] = 1 + max(linked, default=0)
        return lengths

    @cached_property
    def _down(self) -> dict[str, int]:
        """The number of layers from each layer up to the next reset of the signal."""
        lengths: dict[str, int] = {}
        for layer in reversed(self.layers):
            length = lengths.setdefault(layer.name, 1)
            for name in layer.reads if self.continues(layer) else ():
                lengths[name] = max(lengths.get(name, 1), length + 1)
        return lengths

    def continues(self, layer: WeightLayer) -> bool:
        """Return whether a layer reads nothing but weight layers, with neither a norm nor a sum between."""
        place = self.places.get(layer.name)
        if place is None:
            return False
        ops = {self.structure.nodes[n].op for n in self.structure.sources(place)}
        return ops == {Op.WEIGHTS} or self.gate(layer) is not None

"""`plan`: what `init_` would do to a model, layer by layer, and why.

Weights are drawn only where the law of the gradient is known:
- in a chain each layer gets the unbiased gain of the activation that it reads, at its fan-in and depth;
- behind a norm the signal has unit variance, and the gain is that of a walk of one step;
- the last layer of a residual branch is scaled by 1 / sqrt(the number of branches on its stream), relative to the
  stream's own size if the branch begins with a norm, so that the gradient grows by exp(1/2) at most, at any depth;
- of terms that are added in parallel each gets 1 / sqrt(their number).
A layer whose output goes straight into a norm is left alone: its scale does not change the signal. So is a section of
layers, from one norm, sum, input or output to the next, whose own weights already serve: see `sections`. Of output
layers that are left alone for that, a loss shows whether larger ones serve better: see `outputs`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import nn

from gradwalk import checks
from gradwalk.chains.choices import Choice, Given, Selection
from gradwalk.chains.draft import on_purpose
from gradwalk.checks import Weights
from gradwalk.gains import GainEstimate, Passage, unsteady_message
from gradwalk.plans import DEEP, LayerRole, Plan, PlanRow
from gradwalk.plans import LeftAlone as Module
from gradwalk.torch.graph import RESETS
from gradwalk.torch.laws import Law, gate_gain, unbiased_gains
from gradwalk.torch.layers import Layers, WeightLayer, layers_of
from gradwalk.torch.losses import Loss
from gradwalk.torch.outputs import ExampleLoss, enlarged
from gradwalk.torch.padding import log_losses, unknown_losses
from gradwalk.torch.passage import passage
from gradwalk.torch.plain import is_plain, plain_rows
from gradwalk.torch.reach import Reach
from gradwalk.torch.scales import deviations
from gradwalk.torch.sections import kept_sections
from gradwalk.torch.signals import LINEAR, Note
from gradwalk.torch.stream import stream_sizes
from gradwalk.torch.structure import Structure, Sum, SumKind
from gradwalk.torch.weight_layers import shape_of

_UNCOUNTED = (Note.MAX_POOLING, Note.RESAMPLED, Note.SCALED, Note.DROPOUT)


def plan(
    model: nn.Module,
    example: Any = None,
    *,
    activation: Given = None,
    weights: Weights = "gaussian",
    only: Choice = None,
    skip: Choice = None,
    keep_fine: bool = True,
    loss_fn: Loss | None = None,
) -> Plan:
    """Return what `init_` would do to a model: one row per weight layer; the model stays as it is.

    Args:
        model: any torch.nn.Module.
        example: an input on which the model is run once, in evaluation mode and without gradient: a tensor, a tuple of
            arguments or a dict of keywords. It gives the sizes that padding depends on, and the path of a model that
            cannot be traced symbolically.
        activation: the one that layers read where it cannot be determined: one for all, or a mapping from names or
            patterns to activations.
        weights: "gaussian" or "orthogonal".
        only: names, patterns such as "encoder.*" or types of the layers to draw; a layer that is named is drawn even if
            it would be left alone otherwise.
        skip: names, patterns or types of the layers to leave alone.
        keep_fine: leave alone the layers whose own scale already serves: sections between norms and residual sums that
            are at most 6 times too small or 3 times too large (100 times for branches that begin with a norm; outside
            branches each layer may be 6 times too small), and chains that shrink the gradient by less than ten million,
            which optimizers such as Adam cope with, or let it grow by less than a hundred. Larger weights learn more
            slowly at a given rate, so that drawing them again would cost more than it brings.
        loss_fn: returns the loss of the model's output for the example, a scalar. With it, output layers that are too
            small by their law, but would be left alone, are enlarged: up to their law, and as far as the loss on the
            example exceeds that of a constant output by no more than a quarter. A loss that grows as the square of its
            outputs leaves them alone. For each of them the model is run up to eight times, in its own mode and without
            gradient.

    Returns:
        The plan, which prints as a table.

    Raises:
        ValueError: if the model cannot be traced without an example, or `only` or `skip` matches no layer, or there is
            a `loss_fn` without an example, or one that does not return one value.

    >>> net = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> plan(net).row("2").gain, plan(net).drawn
    (2.0236..., ())
    """
    layers = layers_of(model, activation, example, "plan")
    loss = None if loss_fn is None else ExampleLoss(layers.model, example, loss_fn, "plan")
    return Draft(layers, weights, Selection(only, skip, "plan"), keep_fine, loss).plan


@dataclass(frozen=True)
class Draft:
    """A plan in the making: the layers of a model, and the rules that apply to each."""

    layers: Layers
    weights: Weights
    selection: Selection
    keep_fine: bool = True
    loss: ExampleLoss | None = None

    def __post_init__(self) -> None:
        checks.one_of(self.selection.where, "weights", self.weights, checks.WEIGHTS)
        self.selection.check({layer.name: type(layer.module) for layer in self.layers.weight_layers})

    @cached_property
    def plan(self) -> Plan:
        """The plan."""
        rows, _ = self._rows
        if self.loss is not None:
            rows = enlarged(rows, self.layers.weight_layers, self.loss)
        remarks = [self.unsteady, None if self.is_chain else self._residual()]
        if all(row.reason for row in rows):
            remarks.append("No layer is drawn: the model stays as it is.")
        modules = tuple([Module(each.name, each.kind, each.why) for each in self.layers.left_alone])
        return Plan(tuple(rows), modules, tuple([remark for remark in remarks if remark]), self._passage(rows))

    def _passage(self, rows: list[PlanRow]) -> Passage | None:
        """Return the passage of gradients through the model as planned, None unless it is a deep chain."""
        layers = self.layers.weight_layers
        if not self.is_chain or len(rows) < DEEP or any(layer.dropout for layer in layers):
            return None
        gains = [
            row.std * math.sqrt(layer.fan_in) if row.reason or row.gain is None else row.gain
            for layer, row in zip(layers, rows, strict=True)
        ]
        weights = None if all(row.reason for row in rows) else self.weights
        return passage([layer.module for layer in layers], [layer.activation for layer in layers], gains, weights)

    @cached_property
    def unsteady(self) -> str | None:
        """A sentence on the walk that spreads most among those that are unsteady, if it is past serviceable."""
        _, drawn = self._rows
        unsteady = [law for law, estimate in drawn.items() if estimate.kind == "unsteady"]
        if not unsteady:
            return None
        worst = max(unsteady, key=lambda law: drawn[law].spread)
        return unsteady_message(
            worst.activation, worst.fan_in, worst.steps, spread=drawn[worst].spread, weights=self.weights
        )

    @cached_property
    def _rows(self) -> tuple[list[PlanRow], dict[Law, GainEstimate]]:
        """The rows, and the gains of the laws that the layers drawn follow."""
        if self.is_chain and is_plain(self.layers.weight_layers):
            rows, estimates = plain_rows(
                self.layers, self.weights, self.selection, self.keep_fine, self.stds, self._purposes
            )
            return rows, estimates if any(not row.reason for row in rows) else {}
        drawn = {law: self._estimates[law] for name, law in self._laws.items() if name not in self._fine}
        return [self._row(layer) for layer in self.layers.weight_layers], drawn

    @cached_property
    def structure(self) -> Structure:
        """The shape of the dataflow."""
        trace = self.layers.trace
        return Structure(trace.nodes, [signal.node for signal in trace.outputs])

    @cached_property
    def stds(self) -> dict[str, float]:
        """The scale of the weights as they are."""
        return deviations(self.layers.weight_layers)

    @cached_property
    def _purposes(self) -> dict[str, str]:
        return on_purpose({layer.name: (self.stds[layer.name], layer.fan_in) for layer in self.layers.weight_layers})

    @cached_property
    def reach(self) -> Reach:
        """Which layers the laws reach."""
        return Reach(self.layers, self.structure, self._purposes, self.selection)

    @cached_property
    def is_chain(self) -> bool:
        """Whether the model is a chain of layers and activations, without norms, sums and the like."""
        return self.layers.followed is None or not any(node.op in RESETS for node in self.layers.trace.nodes)

    @cached_property
    def _laws(self) -> dict[str, Law]:
        return {layer.name: self._law(layer) for layer in self._lawful}

    @cached_property
    def _lawful(self) -> list[WeightLayer]:
        return [layer for layer in self.layers.weight_layers if not self.reach.reasons[layer.name]]

    @cached_property
    def _fine(self) -> dict[str, str]:
        """Why layers whose law is known are left alone all the same: their own scale serves."""
        if not self.keep_fine:
            return {}
        streams = self._sizes(self._own_gains)
        ratios = {
            layer.name: math.log(self.stds[layer.name] * math.sqrt(layer.fan_in) / self._gain(layer, streams))
            for layer in self._lawful
            if self.stds[layer.name] > 0
        }
        normed = {name for name, each in self.reach.sums.items() if self.reach.begins_with_norm(each)}
        layers = self.layers.weight_layers
        branches = {layer.name for layer in layers if self.reach.role(layer) is LayerRole.BRANCH} | set(self.reach.sums)
        kept = kept_sections(
            layers, self.reach.continues, ratios, self._purposes.keys(), normed, branches, self.is_chain
        )
        return {name: reason for name, reason in kept.items() if not self.selection.names(name)}

    @cached_property
    def _estimates(self) -> dict[Law, GainEstimate]:
        return unbiased_gains(self._laws.values())

    def _law(self, layer: WeightLayer) -> Law:
        return Law(layer.activation or LINEAR, layer.fan_in, self.reach.steps(layer), self.weights, layer.dropout)

    @cached_property
    def _losses(self) -> dict[str, float]:
        return log_losses(self.layers.weight_layers)

    @cached_property
    def _unpadded(self) -> set[str]:
        return unknown_losses(self.layers.weight_layers, self._losses)

    @cached_property
    def _streams(self) -> Mapping[int, float]:
        return self._sizes({name: gain for name, gain in self._own_gains.items() if name not in self._fine})

    def _sizes(self, gains: Mapping[str, float]) -> Mapping[int, float]:
        return {} if self.is_chain else stream_sizes(self.layers, self.structure, self.stds, gains)

    @cached_property
    def _own_gains(self) -> dict[str, float]:
        return {layer.name: self._own_gain(layer) for layer in self._lawful}

    def _own_gain(self, layer: WeightLayer) -> float:
        """Return the gain of a layer before what its sum makes of it."""
        gate = self.reach.gate(layer)
        if gate is not None:
            return gate_gain(gate)
        return self._estimates[self._laws[layer.name]].value * math.exp(-self._losses.get(layer.name, 0.0))

    def _gain(self, layer: WeightLayer, streams: Mapping[int, float]) -> float:
        share, size, _ = self._share(layer, streams)
        return self._own_gains[layer.name] * share * size

    def _share(self, layer: WeightLayer, streams: Mapping[int, float]) -> tuple[float, float, str]:
        """Return the share of a layer in the sum that it ends in, the size of the stream there, and a note on both."""
        each = self.reach.sums.get(layer.name)
        if each is None or each.blocks < 2 or each.ends.scaled:
            return 1.0, 1.0, ""
        share, scale = 1 / math.sqrt(each.blocks), f"its scale is 1/sqrt({each.blocks})"
        if each.kind is SumKind.PARALLEL:
            return share, 1.0, f"one of {each.blocks} terms of a sum: {scale}"
        size = self._stream_size(each, streams)
        relative = "" if abs(size - 1) < 0.1 else f" of the stream's size, {size:.2g}"
        return share, size, f"ends one of {each.blocks} residual branches: {scale}{relative}"

    def _stream_size(self, each: Sum, streams: Mapping[int, float]) -> float:
        """Return the size of the stream where a branch that begins with a norm is added to it; 1 for other branches."""
        if not self.reach.begins_with_norm(each):
            return 1.0
        size = streams.get(each.place, 1.0)
        return size if 1e-4 < size < 1e4 else 1.0

    def _row(self, layer: WeightLayer) -> PlanRow:
        reason, name = self.reach.reasons[layer.name], layer.name
        shape = shape_of(layer.module) if layer.fan_in else ()
        gate = None if layer.activation else self.reach.gate(layer)
        read = layer.activation.name if layer.activation else "?" if gate is None else f"gated {gate.name}"
        role, std = self.reach.role(layer), self.stds[name]
        if reason:
            return PlanRow(name, shape, role, read, std, None, None, None, False, reason)
        share, size, note = self._share(layer, self._streams)
        gain = self._own_gains[name] * share * size
        uncounted = name in self._unpadded or any(each in _UNCOUNTED for each in layer.notes)
        drift = None if uncounted else layer.log_factor + math.log(share)
        exact = drift == 0 and not layer.notes and name not in self._losses and self._is_exact(layer)
        fine, proposed = self._fine.get(name, ""), gain / math.sqrt(layer.fan_in)
        return PlanRow(name, shape, role, read, std, proposed, gain, drift, exact, fine, self._notes(layer, note))

    def _notes(self, layer: WeightLayer, share: str) -> tuple[str, ...]:
        notes = [str(each) for each in layer.notes if each in _UNCOUNTED or each is Note.GIVEN]
        unpadded = layer.name in self._unpadded
        return (*notes, *([share] if share else []), *(["padding: not counted without example="] if unpadded else []))

    def _is_exact(self, layer: WeightLayer) -> bool:
        """Return whether the law holds exactly; the gain of orthogonal weights is that of a square matrix."""
        widens = self.weights == "orthogonal" and shape_of(layer.module)[0] > layer.fan_in
        return self._estimates[self._laws[layer.name]].kind == "neutral" and not widens

    def _residual(self) -> str | None:
        """Return a sentence on the gradient along the stream, where branches are scaled for it."""
        drawn = [name for name in self._laws if name not in self._fine and name in self.reach.sums]
        residual = [each for name in drawn if (each := self.reach.sums[name]).kind is SumKind.RESIDUAL]
        blocks = max((each.blocks for each in residual), default=0)
        if blocks < 2:
            return None
        growth = 0.5 * blocks * math.log1p(1 / blocks)
        return (
            f"Residual branches: along the stream of {blocks} branches the gradient's log-norm grows by about "
            f"{growth:.2f} in all; at full scale a plain branch would add {0.5 * math.log(2) * blocks:.3g}."
        )

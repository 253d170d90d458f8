"""`calibrate_`: the paper's three gains, tuned on the user's own batch until the measured walk is flat (sec. 3.1).

gain_in scales the weights of the first layer (g_1), gain those of all layers between (g), gain_out those of the last
(g_D).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from gradwalk import checks
from gradwalk.display import INK, RED, Shown, axes_of
from gradwalk.progress import progress
from gradwalk.torch.follow import arguments, unwrapped
from gradwalk.torch.given import Given, given_for
from gradwalk.torch.losses import Loss
from gradwalk.torch.measurement import Inputs, Measured, measure
from gradwalk.torch.probe import compared
from gradwalk.torch.trace import Trace
from gradwalk.torch.walk import GradientWalk

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WHERE = "calibrate_"
_WIDEST = 8.0  # how far the log of a factor is followed from its start; farther off no layer is sensibly scaled


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Shown):
    """The factors put on the weights of a model, and its walks around that.

    Attributes:
        gain_in: the factor on the weights of the first layer.
        gain: the factor on those between.
        gain_out: the factor on those of the last.
        before: the walk that was measured first.
        after: the walk that was measured last.
        passes: how often the model was run forward and back.
    """

    gain_in: float
    gain: float
    gain_out: float
    before: GradientWalk
    after: GradientWalk
    passes: int

    def __repr__(self) -> str:
        return f"Calibration({self.passes} passes, {self.before.status} before, {self.after.status} after)"

    def columns(self) -> dict[str, list[Any]]:
        """Return the log-norms before and after as named columns, one row per layer."""
        before, after = (walk.log_norm.tolist() for walk in (self.before, self.after))
        return {"layer": list(self.after.layers), "before": before, "after": after}

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the log-norm of the gradient from the output back, before and after, and return the axes."""
        panel, order = axes_of(ax), np.arange(len(self.after.layers), 0, -1)
        for walk, colour, name in ((self.before, INK, "before"), (self.after, RED, "after")):
            panel.plot(order, walk.log_norm[::-1], color=colour, label=f"{name}: {walk.status}")
        panel.axhline(0.0, color=INK, linewidth=0.6)
        panel.set(xlim=(len(order), 1), xlabel="weight layer, from the output back", ylabel="log-norm")
        panel.legend(frameon=False)
        return panel

    def __str__(self) -> str:
        factors = f"gain_in = {self.gain_in:.4g}, gain = {self.gain:.4g}, gain_out = {self.gain_out:.4g}"
        lines = [f"weights multiplied by {factors}"]
        for name, walk in (("before", self.before), ("after", self.after)):
            rms = math.exp(walk.forward[0])
            lines.append(f"{name:<6} final log-norm {walk.log_norm[0]:+.3f}, rms of layer 1 {rms:.3g}")
        return "\n".join([*lines, self.after.verdict])


def calibrate_(
    model: nn.Module,
    inputs: Inputs,
    loss_fn: Loss,
    *,
    activation: Given = None,
    tolerance: float = 0.01,
    rounds: int = 10,
) -> Calibration:
    """Scale the weights of a model in place until its measured walk is flat on this batch, and return the factors.

    gain_in makes the rms of the pre-activations of layer 1 equal to 1; gain makes the mean log-norm between the last
    hidden layer and the first, ln(|delta_1| / |delta_(D-1)|), 0; gain_out does so for the output layer,
    ln(|delta_(D-1)| / |delta_D|), so that the whole walk starts and ends at 0. Biases and frozen weights are left
    alone. The model is run forward and back once to start, once per trial factor, and once at the end of each round.

    Args:
        model: a chain of weight layers.
        inputs: a tensor, a tuple of arguments or a dict of keywords, with examples along the first dimension.
        loss_fn: returns the loss of the model's output, a scalar.
        activation: the one that a layer reads where it cannot be determined: one for all of them, or a mapping from
            names or patterns such as "decoder.*" to activations.
        tolerance: within which all three hold, in logarithms.
        rounds: how often all three are tuned, at most.

    Returns:
        The factors, the walks before and after, and `passes`, the number of runs of the model: 10 to 60 as a rule.

    Raises:
        ValueError: if it fails, with the reason; the weights are then restored.

    >>> net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
    >>> walk = calibrate_(net, torch.eye(8), lambda y: y.square().sum()).after
    >>> bool(abs(walk.log_norm[0]) < 0.02)
    True
    """
    checks.positive(_WHERE, "tolerance", tolerance)
    checks.whole(_WHERE, "rounds", rounds)
    model = unwrapped(model, _WHERE)
    _check_inputs(inputs)
    given_for(activation, _WHERE)
    trace = Trace(model)
    start = measure(model, inputs, loss_fn, _WHERE, trace)
    before = compared(start, trace, activation, _WHERE)
    with progress("passes through the model") as job:
        tuning = _Tuning(model, inputs, loss_fn, start, job.advance)
        try:
            after = compared(tuning.tune(tolerance, rounds), trace, activation, _WHERE)
        except BaseException:
            tuning.put_back()
            raise
    gain_in, gain, gain_out = (math.exp(log) for log in tuning.logs)
    return Calibration(gain_in, gain, gain_out, before, after, tuning.passes)


def _check_inputs(inputs: Inputs) -> None:
    tensors = [each for each in tree_leaves(arguments(inputs)) if isinstance(each, Tensor)]
    if not tensors:
        raise TypeError(f"{_WHERE}: inputs must be a tensor, or a tuple or dict of them, got {type(inputs).__name__}")
    if any(tensor.dim() and not len(tensor) for tensor in tensors):
        raise ValueError(f"{_WHERE}: inputs must have at least one example, got an empty batch")
    for tensor in tensors:
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"{_WHERE}: inputs must be finite, got NaN or infinity among them")
    if all(tensor.numel() == 0 or bool((tensor == tensor.flatten()[0]).all()) for tensor in tensors):
        raise ValueError(f"{_WHERE}: inputs must not be constant; pass a batch of real data")


@dataclass(frozen=True)
class _Goal:
    """A number of the measured walk that a group of weights is to bring to 0.

    slope: its derivative by the log of the group's factor, where the activation is homogeneous.
    """

    name: str
    value: Callable[[Measured], float]
    slope: int


class _Tuning:
    """The weights in three groups with the log of the factor on each, and the passes that measure the walk."""

    def __init__(
        self, model: nn.Module, inputs: Inputs, loss_fn: Loss, start: Measured, advance: Callable[[], None]
    ) -> None:
        self.model, self.inputs, self.loss_fn, self.advance = model, inputs, loss_fn, advance
        self.logs, self.passes = [0.0, 0.0, 0.0], 1
        _check_finite(start)
        if len(start.calls) < 2:
            raise ValueError(f"{_WHERE}: the model must have at least two weight layers, got {len(start.calls)}")
        layers = list(dict.fromkeys(call.module for call in start.calls))
        for module in layers:
            if "weight" not in module._parameters:
                raise ValueError(f"{_WHERE}: a weight is computed from other tensors and cannot be scaled: {module}")
        self.groups = _groups(start)
        self.originals = [[w.detach().clone() for w in group] for group in self.groups]

    def look(self) -> Measured:
        """Return the walk with the current weights; raise if something is not finite."""
        self.passes += 1
        self.advance()
        measured = measure(self.model, self.inputs, self.loss_fn, _WHERE)
        _check_finite(measured)
        return measured

    def scale(self, group: int, log: float) -> None:
        """Put the factor exp(log) on the original weights of a group."""
        self.logs[group] = log
        with torch.no_grad():
            for weight, original in zip(self.groups[group], self.originals[group], strict=True):
                weight.copy_(original * math.exp(log))

    def put_back(self) -> None:
        """Restore the original weights."""
        for group in range(3):
            self.scale(group, 0.0)

    def tune(self, tolerance: float, rounds: int) -> Measured:
        """Tune one factor after the other, since each shifts the others a little, and return the final walk."""
        goals = [
            _Goal("the rms of layer 1", lambda m: math.log(m.rms[0]) if m.rms[0] > 0 else -math.inf, 1),
            _Goal("the walk between the hidden layers", lambda m: float(m.mean[0] - m.mean[-2]), len(self.groups[1])),
            _Goal("the walk through the output layer", lambda m: float(m.mean[-2]), 1),
        ]
        off = [math.inf]
        for _ in range(rounds):
            for group, goal in enumerate(goals):
                if goal.slope and self.groups[group]:
                    self.solve(group, goal, tolerance / 2)
            measured = self.look()
            off = [abs(goal.value(measured)) for goal in goals]
            off[0] = (
                off[0] if self.groups[0] else 0.0
            )  # where the first layer is frozen, the size of the signal is given
            if max(off) <= tolerance:
                return measured
        worst = off.index(max(off))
        raise ValueError(
            f"{_WHERE}: {goals[worst].name} is still {off[worst]:.2g} from its goal after {rounds} rounds; allow more "
            "rounds or a larger tolerance"
        )

    def solve(self, group: int, goal: _Goal, tolerance: float) -> None:
        """Find the log of one group's factor at which its goal is 0: bracket it by steps, then use Brent's method."""
        start, slope = self.logs[group], goal.slope

        def value(log: float) -> float:
            self.scale(group, log)
            return goal.value(self.look())

        here, at = start, value(start)
        for _ in range(60):
            if abs(at) <= tolerance:
                return
            reach = math.copysign(min(max(abs(at) / slope, tolerance / slope), 1.0), at) if math.isfinite(at) else 0.0
            there = here - 1.2 * reach  # a little too far, so that the root lies between
            if reach == 0.0 or abs(there - start) > _WIDEST:
                break
            beyond = value(there)
            if at * beyond <= 0:
                low, high = sorted((here, there))
                self.scale(group, float(scipy.optimize.brentq(value, low, high, xtol=tolerance / slope / 4)))
                return
            here, at = there, beyond
        raise ValueError(f"{_WHERE}: no factor on the weights brings {goal.name} to its goal")


def _groups(start: Measured) -> list[list[Tensor]]:
    """Return the weights of the first layer, of those between and of the last, without frozen ones."""
    weights = [call.module._parameters["weight"] for call in start.calls]
    for place in (0, -1):
        same = [call.name for call, w in zip(start.calls, weights, strict=True) if w is weights[place]]
        if len(same) > 1:
            raise ValueError(f"{_WHERE}: {' and '.join(same[:2])} share their weight and cannot be scaled apart")
    hidden = dict.fromkeys(weights[1:-1])
    return [[w for w in group if w is not None and w.requires_grad] for group in (weights[:1], hidden, weights[-1:])]


def _check_finite(measured: Measured) -> None:
    if measured.broken:
        raise ValueError(f"{_WHERE}: {measured.broken}")

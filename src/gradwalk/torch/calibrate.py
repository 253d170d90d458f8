"""The paper's three parameters, tuned on the user's own batch until the measured walk is flat (sec. 3.1).

g_1 scales the weights of the first layer, g those of all layers between, g_D those of the last.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from scipy import optimize
from torch import Tensor, nn

from gradwalk import checks
from gradwalk.activations import Activation
from gradwalk.torch.measurement import Inputs, Loss, Measured, measure
from gradwalk.torch.probe import probe
from gradwalk.torch.walk import GradientWalk

_WHERE = "calibrate_"
_WIDEST = 8.0  # how far ln g is followed from where it stands; past this no layer is sensibly scaled


@dataclass(frozen=True, eq=False)
class Calibration:
    """The factors put on the weights of the first layer, of those between and of the last, and the walks around it.

    passes: how often the model was run forward and back for it.
    """

    g_1: float
    g: float
    g_D: float  # the paper's name
    before: GradientWalk
    after: GradientWalk
    passes: int

    def __str__(self) -> str:
        factors = f"g_1 = {self.g_1:.4g} (first), g = {self.g:.4g} (between), g_D = {self.g_D:.4g} (last)"
        rows = [f"weights multiplied by {factors}"]
        for name, walk in (("before", self.before), ("after", self.after)):
            rms = math.exp(walk.forward[0])
            rows.append(f"{name:<6} final log-norm {walk.log_norm[0]:+.3f}, rms of layer 1 {rms:.3g}")
        return "\n".join([*rows, self.after.verdict])


def calibrate_(
    model: nn.Module,
    inputs: Inputs,
    loss_fn: Loss,
    *,
    activation: str | Activation | None = None,
    tolerance: float = 0.01,
    rounds: int = 10,
) -> Calibration:
    """Scale the weights of a model in place until its measured walk is flat on this batch, and return by how much.

    g_1: the pre-activations of layer 1 have unit rms. g: the mean log-norm between the last hidden layer and the
    first, ln(|delta_1| / |delta_(D-1)|), is 0. g_D: that of the output layer, ln(|delta_(D-1)| / |delta_D|), is 0, so
    that the whole walk starts and ends at 0. All three to `tolerance`, in logarithms, in up to `rounds` rounds.
    Biases are left as they are. If it fails, the weights are put back and a ValueError says why.

    >>> net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
    >>> walk = calibrate_(net, torch.eye(8), lambda y: y.square().sum()).after
    >>> bool(abs(walk.log_norm[0]) < 0.02)
    True
    """
    checks.positive(_WHERE, "tolerance", tolerance)
    checks.whole(_WHERE, "rounds", rounds)
    _check_inputs(inputs)
    tuning = _Tuning(model, inputs, loss_fn)
    before = probe(model, inputs, loss_fn, activation=activation)
    try:
        tuning.tune(tolerance, rounds)
        after = probe(model, inputs, loss_fn, activation=activation)
    except BaseException:
        tuning.put_back()
        raise
    g_1, g, g_d = (math.exp(log) for log in tuning.logs)
    return Calibration(g_1, g, g_d, before, after, tuning.passes)


def _check_inputs(inputs: Inputs) -> None:
    tensors = [each for each in (inputs if isinstance(inputs, tuple) else (inputs,)) if isinstance(each, Tensor)]
    if not tensors:
        raise TypeError(f"{_WHERE}: inputs must be a tensor or a tuple with tensors, got {type(inputs).__name__}")
    for each in tensors:
        if each.is_floating_point() and not bool(torch.isfinite(each).all()):
            raise ValueError(f"{_WHERE}: inputs must be finite, got NaN or infinity among them")
    if all(each.numel() == 0 or bool((each == each.flatten()[0]).all()) for each in tensors):
        raise ValueError(
            f"{_WHERE}: inputs are constant, so nothing can be learned from them; pass a batch of real data"
        )


class _Tuning:
    """The weights in three groups with the logarithm of the factor on each, and the passes that look at the walk."""

    def __init__(self, model: nn.Module, inputs: Inputs, loss_fn: Loss) -> None:
        self.model, self.inputs, self.loss_fn = model, inputs, loss_fn
        self.logs, self.passes = [0.0, 0.0, 0.0], 0
        calls = self.look().calls
        if len(calls) < 2:
            raise ValueError(f"{_WHERE}: the gradient walks from one weight layer to another, the model has only one")
        layers = list(dict.fromkeys(call.module for call in calls))
        for module in layers:
            if "weight" not in module._parameters:
                raise ValueError(f"{_WHERE}: a weight is computed from other tensors and cannot be scaled: {module}")
        weights = list(dict.fromkeys(module._parameters["weight"] for module in layers))
        self.groups = [weights[:1], weights[1:-1], weights[-1:]] if len(weights) > 1 else [[], weights, []]
        self.originals = [[w.detach().clone() for w in group if w is not None] for group in self.groups]

    def look(self) -> Measured:
        """Return the walk with the weights as they are, or say what is not finite."""
        self.passes += 1
        measured = measure(self.model, self.inputs, self.loss_fn, _WHERE)
        if measured.broken:
            raise ValueError(f"{_WHERE}: {measured.broken}")
        return measured

    def scale(self, group: int, log: float) -> None:
        """Put the factor exp(log) on the original weights of a group."""
        self.logs[group] = log
        with torch.no_grad():
            for weight, original in zip(self.groups[group], self.originals[group], strict=True):
                assert weight is not None
                weight.copy_(original * math.exp(log))

    def put_back(self) -> None:
        """Undo everything."""
        for group in range(3):
            self.scale(group, 0.0)

    def tune(self, tolerance: float, rounds: int) -> None:
        """Tune one factor after the other, since each shifts the others a little, until all three are right."""
        goals: list[Callable[[Measured], float]] = [
            lambda seen: math.log(seen.rms[0]) if seen.rms[0] > 0 else -math.inf,
            lambda seen: float(seen.mean[0] - seen.mean[-2]),
            lambda seen: float(seen.mean[-2]),
        ]
        slopes = [1, len(self.groups[1]), 1]  # how the goal moves with the logarithm where f is homogeneous
        names = ["the rms of layer 1", "the walk between the hidden layers", "the walk through the output layer"]
        off = [math.inf]
        for _ in range(rounds):
            for group, (goal, slope) in enumerate(zip(goals, slopes, strict=True)):
                if slope and self.groups[group]:
                    self.solve(group, goal, slope, tolerance / 2, names[group])
            seen = self.look()
            off = [abs(goal(seen)) if weights else 0.0 for goal, weights in zip(goals, self.groups, strict=True)]
            if max(off) <= tolerance:
                return
        worst = off.index(max(off))
        raise ValueError(f"{_WHERE}: {names[worst]} is still {off[worst]:.2g} from its goal after {rounds} rounds")

    def solve(self, group: int, goal: Callable[[Measured], float], slope: int, tolerance: float, name: str) -> None:
        """Find the factor of one group at which its goal is 0, in the logarithm: step, bracket, then Brent."""
        start = self.logs[group]

        def value(log: float) -> float:
            self.scale(group, log)
            return goal(self.look())

        here, at = start, value(start)
        for _ in range(60):
            if abs(at) <= tolerance:
                return
            reach = math.copysign(min(max(abs(at) / slope, tolerance / slope), 1.0), at) if math.isfinite(at) else 0.0
            there = here - 1.2 * reach  # a little far, so that the root comes to lie between
            if reach == 0.0 or abs(there - start) > _WIDEST:
                break
            beyond = value(there)
            if at * beyond <= 0:
                low, high = sorted((here, there))
                self.scale(group, float(optimize.brentq(value, low, high, xtol=tolerance / slope / 4)))
                return
            here, at = there, beyond
        raise ValueError(f"{_WHERE}: no factor on the weights brings {name} to its goal")

"""Output layers, whose law is half of what matters: how large an output should be depends on the targets.

Many models start with an output layer a few times smaller than its law, and train faster with a larger one, unless the
targets are smaller still (results/heads.md). A loss on an example shows which is the case: outputs may grow towards the
law until that loss exceeds the one of outputs that are the same for all inputs by a quarter.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from gradwalk.plans import LayerRole, PlanRow
from gradwalk.torch.follow import arguments
from gradwalk.torch.layers import WeightLayer
from gradwalk.torch.losses import Loss, check_function, one_value
from gradwalk.torch.sections import FINE, PARTLY
from gradwalk.torch.undisturbed import undisturbed
from gradwalk.torch.weight_layers import weight_of

_RISE = 0.25  # by which the loss may exceed that of a constant output
_HALVINGS = 4  # of the range in which the factor is searched, on a logarithmic scale
_LEAST = 1.5  # factors below it are not worth a change
_LARGE = f"an output layer: {_LEAST:g} times as large, it would raise the loss on the example too far"


class ExampleLoss:
    """The loss of a model on an example with some of its weights multiplied; the model stays as it is."""

    def __init__(self, model: nn.Module, example: Any, loss_fn: Loss, where: str) -> None:
        check_function(loss_fn, where)
        if example is None:
            raise ValueError(f"{where}: loss_fn needs example=, an input to run the model on")
        self.model, self.loss_fn, self.where = model, loss_fn, where
        self.args, self.kwargs = arguments(example)
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}

    def times(self, factors: Mapping[nn.Module, float]) -> float:
        """Return the loss with the weights of these layers multiplied, in the model's own mode.

        Dropout and the like draw the same numbers in every call.
        """
        with torch.no_grad(), undisturbed(list(self.model.modules())):
            scaled = {self._name(layer): weight_of(layer) * factor for layer, factor in factors.items()}
            try:
                output = functional_call(self.model, scaled, self.args, self.kwargs)
            except Exception as error:
                raise ValueError(f"{self.where}: the model does not run on the example: {error}") from error
            return float(one_value(self.loss_fn(output), self.where))

    def _name(self, layer: nn.Module) -> str:
        return self._names[id(layer._parameters["weight"])]


def enlarged(rows: Sequence[PlanRow], layers: Sequence[WeightLayer], loss: ExampleLoss) -> list[PlanRow]:
    """Return the rows of a plan with the output layers that are too small by their law enlarged as far as they may be.

    Only layers that would be left alone because their own scale serves are changed. Their own weights are multiplied
    rather than drawn, so that the loss is the one that was measured.
    """
    modules = [layer.module for layer in layers]
    ratios = {
        module: row.proposed / row.std
        for module, row in zip(modules, rows, strict=True)
        if row.proposed is not None and _is_small(row)
    }
    if not ratios:
        return list(rows)
    share = _largest_share(ratios, loss)
    return [
        _enlarged(row, ratios[module] ** share) if module in ratios else row
        for module, row in zip(modules, rows, strict=True)
    ]


def _is_small(row: PlanRow) -> bool:
    kept = row.role is LayerRole.HEAD and row.reason in (FINE, PARTLY)
    return kept and row.proposed is not None and 0 < row.std < row.proposed


def _largest_share(ratios: Mapping[nn.Module, float], loss: ExampleLoss) -> float:
    """Return the largest exponent of the factors, from 0 to 1, at which the loss does not rise too far."""
    constant = loss.times(dict.fromkeys(ratios, 0.0))
    limit = constant + _RISE * abs(constant)

    def fits(share: float) -> bool:
        return loss.times({module: ratio**share for module, ratio in ratios.items()}) <= limit

    if fits(1.0):
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _enlarged(row: PlanRow, factor: float) -> PlanRow:
    assert row.proposed is not None
    assert row.gain is not None
    if factor < _LEAST:
        return row._replace(reason=_LARGE)
    below = row.std * factor / row.proposed
    how_far = "up to its law" if math.isclose(below, 1) else "as far as the loss on the example allows"
    return row._replace(
        proposed=row.std * factor,
        gain=row.gain * below,
        drift=None if row.drift is None else row.drift + math.log(below),
        exact=False,
        reason="",
        notes=(*row.notes, f"an output layer: its own weights times {factor:.2g}, {how_far}"),
        rescaled=True,
    )

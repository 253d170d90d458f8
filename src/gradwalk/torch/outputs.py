"""Output layers, whose law is half of what matters: how large an output should be depends on the targets.

Many models start with an output layer a few times smaller than its law, and train faster with a larger one if their
targets are classes; if these are numbers, they do not, or suffer (results/heads.md, results/outputs.md). A loss on an
example shows both. One that grows as the square of large outputs, or faster, compares them with numbers, and output
layers are left alone. Otherwise they may grow towards the law, until that loss exceeds the one of an output that is the
same for all inputs by a quarter.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from gradwalk.plans import LayerRole, PlanRow
from gradwalk.torch.follow import arguments
from gradwalk.torch.layers import WeightLayer
from gradwalk.torch.losses import Loss, check_function, one_value
from gradwalk.torch.sections import FINE, PARTLY
from gradwalk.torch.undisturbed import undisturbed

_RISE = 0.25  # by which the loss may exceed that of a constant output
_FAR = 100.0  # times its law an output is large;
_STEEP = 3.0  # twice as large it has twice the loss if that is linear, and 4 times if it is a square
_HALVINGS = 4  # of the range in which the factor is searched, on a logarithmic scale
_LEAST = 1.5  # factors below it are not worth a change
_AGAINST = "an output layer: the loss on the example speaks against a larger one"


class ExampleLoss:
    """The loss of a model on an example with some of its weights multiplied; the model stays as it is."""

    def __init__(self, model: nn.Module, example: Any, loss_fn: Loss, where: str) -> None:
        check_function(loss_fn, where)
        if example is None:
            raise ValueError(f"{where}: loss_fn needs example=, an input to run the model on")
        self.model, self.example, self.loss_fn, self.where = model, example, loss_fn, where

    def times(self, factors: Mapping[nn.Module, float]) -> float:
        """Return the loss with the weights of these layers multiplied, in the model's own mode.

        Dropout and the like draw the same numbers in every call.
        """
        args, kwargs = arguments(self.example)
        with torch.no_grad(), undisturbed(list(self.model.modules())), _multiplied(factors):
            try:
                output = self.model(*args, **kwargs)
            except Exception as error:
                raise ValueError(f"{self.where}: the model does not run on the example: {error}") from error
            try:
                loss = self.loss_fn(output)
            except Exception as error:
                raise ValueError(f"{self.where}: loss_fn fails on an output without gradient: {error}") from error
            return float(one_value(loss, self.where))


@contextmanager
def _multiplied(factors: Mapping[nn.Module, float]) -> Iterator[None]:
    """Multiply the weights of layers, and put their own back on exit: the same memory, not a copy."""
    weights = [(layer._parameters["weight"], factor) for layer, factor in factors.items()]
    own = [(weight, weight.data) for weight, _ in weights if weight is not None]
    try:
        for weight, factor in weights:
            if weight is not None:
                weight.data = weight.data * factor
        yield
    finally:
        for weight, values in own:
            weight.data = values


def enlarged(rows: Sequence[PlanRow], layers: Sequence[WeightLayer], loss: ExampleLoss) -> list[PlanRow]:
    """Return the rows of a plan with the output layers that are too small by their law enlarged as far as they may be.

    Only layers that would be left alone because their own scale serves are changed. Their own weights are multiplied
    rather than drawn, so that the loss is the one that was measured.
    """
    return [
        _enlarged(row, _largest_factor(layer.module, row.proposed / row.std, loss))
        if row.proposed is not None and _is_small(row)
        else row
        for layer, row in zip(layers, rows, strict=True)
    ]


def _is_small(row: PlanRow) -> bool:
    kept = row.role is LayerRole.HEAD and row.reason in (FINE, PARTLY)
    return kept and row.proposed is not None and 0 < row.std < row.proposed


def _largest_factor(layer: nn.Module, ratio: float, loss: ExampleLoss) -> float:
    """Return the largest factor, from 1 to the ratio of the law to the own scale, that the loss allows."""
    constant, far, further = (loss.times({layer: factor}) for factor in (0.0, _FAR * ratio, 2 * _FAR * ratio))
    if not (abs(constant) < far and further < _STEEP * far):  # nor where it is not finite, or does not depend on it
        return 1.0
    limit = constant + _RISE * abs(constant)
    low, high = 0.0, 1.0
    if loss.times({layer: ratio}) <= limit:
        return ratio
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if loss.times({layer: ratio**middle}) <= limit else (low, middle)
    return float(ratio**low)


def _enlarged(row: PlanRow, factor: float) -> PlanRow:
    assert row.proposed is not None
    assert row.gain is not None
    if factor < _LEAST:
        return row._replace(reason=_AGAINST)
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

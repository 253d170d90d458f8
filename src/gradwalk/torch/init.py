"""`init_`: draw the weights of a whole model so that its gradient does an unbiased walk."""

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from gradwalk.chains.choices import Choice, Given, Selection
from gradwalk.checks import Weights
from gradwalk.gains import UnsteadyWarning
from gradwalk.plans import Plan, PlanRow
from gradwalk.progress import progress
from gradwalk.torch.layers import Exclusion, Layers, WeightLayer, layers_of
from gradwalk.torch.losses import Loss
from gradwalk.torch.outputs import ExampleLoss
from gradwalk.torch.plan import Draft
from gradwalk.torch.random_walk import fill_
from gradwalk.torch.scales import constant
from gradwalk.torch.weight_layers import output_rows, weight_of


def init_(
    model: nn.Module,
    activation: Given = None,
    *,
    example: Any = None,
    weights: Weights = "gaussian",
    only: Choice = None,
    skip: Choice = None,
    keep_fine: bool = True,
    loss_fn: Loss | None = None,
    generator: torch.Generator | None = None,
) -> Plan:
    """Draw the weights of a model in place so that its gradient does an unbiased walk; return the plan applied.

    Each layer whose law is known, and whose own scale does not serve, gets the gain of the activation that it reads:
    see `plan`, which takes the same arguments and changes nothing. In plain chains the biases of the layers drawn
    become 0, except those with one value other than 0 in all entries, which were set on purpose; in other models biases
    stay, or shrink with their weights. Never touched unless `only` names them: frozen, shared and parametrised weights,
    adapters, layers that are zero or clearly scaled on purpose, and all that is outside the theory. The model is run
    once, on the example, unless it is a plain `nn.Sequential` or no example is given; with `loss_fn` up to eight times
    more per output layer.

    Args:
        model: any torch.nn.Module.
        activation: the one that a layer reads where it cannot be determined: one for all of them, or a mapping from
            names or patterns such as "decoder.*" to activations.
        example: an input on which the model is run once, in evaluation mode and without gradient: a tensor, a tuple of
            arguments or a dict of keywords.
        weights: "gaussian", or "orthogonal" for Haar orthogonal matrices with entries of the same variance.
        only: names, patterns such as "encoder.*" or types of the layers to draw; a layer that is named is drawn even if
            it would be left alone otherwise.
        skip: names, patterns or types of the layers to leave alone.
        keep_fine: leave alone the layers whose own scale already serves, as in `plan`.
        loss_fn: returns the loss of the model's output for the example, a scalar; with it, output layers that are too
            small by their law are enlarged as far as that loss allows, as in `plan`.
        generator: draws the weights (default: torch's global one).

    Returns:
        The plan, one row per weight layer.

    Raises:
        ValueError: if the model cannot be traced without an example, or `only` or `skip` matches no layer, or there is
            a `loss_fn` without an example, or one that does not return one value.

    Warns:
        UnsteadyWarning: if no gain keeps networks of that depth together.

    >>> net = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    >>> [round(row.gain, 4) for row in init_(net, keep_fine=False).rows]
    [1.0673, 2.0236]
    """
    layers = layers_of(model, activation, example, "init_")
    _check(layers)
    loss = None if loss_fn is None else ExampleLoss(layers.model, example, loss_fn, "init_")
    draft = Draft(layers, weights, Selection(only, skip, "init_"), keep_fine, loss)
    changed = [(layer, row) for layer, row in zip(layers.weight_layers, draft.plan.rows, strict=True) if not row.reason]
    drawn = [(layer, row) for layer, row in changed if not row.rescaled]
    with torch.no_grad(), progress("weights", len(drawn)) as job:
        for layer, row in drawn:
            _draw_(layer, row, weights, generator)
            job.advance()
        if draft.is_chain:
            _clear_biases_([layer.module for layer, _ in drawn])
        else:
            _shrink_biases_(drawn)
        for layer, row in changed:
            if row.rescaled:
                _rescale_(layer, row)
    if draft.unsteady:
        warnings.warn(f"init_: {draft.unsteady}", UnsteadyWarning, stacklevel=2)
    return draft.plan


def _check(layers: Layers) -> None:
    """Raise a ValueError where there is nothing that could ever be drawn."""
    model = layers.model
    if next(model.parameters(), None) is None:
        raise ValueError(f"init_: {type(model).__name__} has no parameters")
    if layers.weight_layers and all(layer.objection is Exclusion.META for layer in layers.weight_layers):
        raise ValueError(
            f"init_: {type(model).__name__} is on the meta device and has no weights yet; call to_empty() first"
        )


def _draw_(layer: WeightLayer, row: PlanRow, weights: Weights, generator: torch.Generator | None) -> None:
    """Draw the weights of a layer, group by group where that matters."""
    weight, std = layer.module._parameters["weight"], row.proposed
    assert weight is not None and std is not None  # noqa: PT018
    if weights == "gaussian":
        fill_(weight, std, weights, generator)
        return
    for group in weight.chunk(int(getattr(layer.module, "groups", 1))):  # along the first axis in all layers
        fill_(output_rows(layer.module, group), std, weights, generator)


def _rescale_(layer: WeightLayer, row: PlanRow) -> None:
    assert row.proposed is not None
    weight_of(layer.module).mul_(row.proposed / row.std)


def _shrink_biases_(drawn: list[tuple[WeightLayer, PlanRow]]) -> None:
    """Scale the biases of layers that are drawn smaller than they were, so that they do not outweigh the weights."""
    for layer, row in drawn:
        if isinstance(layer.module.bias, Tensor) and row.proposed is not None and row.proposed < row.std:
            layer.module.bias.mul_(row.proposed / row.std)


def _clear_biases_(modules: list[nn.Module]) -> None:
    held = [module._parameters.get("bias") for module in modules]
    biases: list[Tensor] = [bias for bias in held if bias is not None and bias.numel()]
    cleared = [bias for bias, kept in zip(biases, constant(biases), strict=True) if not kept]
    if cleared:
        torch._foreach_zero_(cleared)

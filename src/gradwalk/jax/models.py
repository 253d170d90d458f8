"""`plan`, `init` and `init_variables`: the weights of whole Flax models."""

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen, nnx
from flax.core import unfreeze

from gradwalk import activations
from gradwalk.chains import Choice, Draft, Given, GivenActivations, Selection
from gradwalk.checks import Weights, whole
from gradwalk.gains import UnsteadyWarning
from gradwalk.jax.flax_trace import Parameters, Trace, traced_linen, traced_nnx
from gradwalk.jax.initialiser import random_walk
from gradwalk.plans import Plan, PlanRow
from gradwalk.progress import progress

_SEEDS = -(2**63), 2**63 - 1  # what jax.random.key takes


def plan(
    model: Any,
    example: Any,
    *,
    variables: Mapping[str, Any] | None = None,
    activation: Given = None,
    weights: Weights = "gaussian",
    only: Choice = None,
    skip: Choice = None,
) -> Plan:
    """Return what `init` or `init_variables` would do to a Flax model: one row per weight layer; it stays as it is.

    The model is traced on the example, without being computed. Weights are drawn only where the law of the gradient is
    known: in chains, and behind norms. Never drawn unless `only` names them: kernels that are no nnx.Param, layers that
    run more than once, that are zero or clearly scaled on purpose, that lead into sums, attention or operations that
    gradwalk does not know or read their output.

    Args:
        model: an nnx module, or a linen module with its `variables`.
        example: an input of the model, or a tuple of its arguments; arrays or `jax.ShapeDtypeStruct`.
        variables: those of a linen module.
        activation: the one that layers read where it cannot be determined: one for all, or a mapping from names or
            patterns to activations.
        weights: "gaussian" or "orthogonal".
        only: names, patterns such as "encoder.*" or types of the layers to draw; a layer that is named is drawn even if
            it would be left alone otherwise.
        skip: names, patterns or types of the layers to leave alone.

    Returns:
        The plan, which prints as a table.

    Raises:
        ValueError: if the model has no weight layer, or `only` or `skip` matches none.

    >>> from flax import nnx
    >>> rngs = nnx.Rngs(0)
    >>> model = nnx.Sequential(nnx.Linear(8, 4, rngs=rngs), nnx.relu, nnx.Linear(4, 2, rngs=rngs))
    >>> [round(row.gain, 4) for row in plan(model, jnp.ones((1, 8))).rows]
    [1.0673, 2.0236]
    """
    trace = _traced(model, variables, example, "plan")
    return _draft(trace, activation, weights, Selection(only, skip, "plan")).plan


def init(
    model: Any,
    example: Any,
    activation: Given = None,
    *,
    weights: Weights = "gaussian",
    only: Choice = None,
    skip: Choice = None,
    seed: int = 0,
) -> Plan:
    """Draw the weights of an nnx module in place so that its gradient does an unbiased walk; return the plan applied.

    See `plan`, which takes the same arguments and changes nothing. Biases of the layers drawn become 0, except those
    with one value other than 0 in all entries, which were set on purpose.

    Args:
        model: an nnx module.
        example: an input of the model, or a tuple of its arguments; arrays or `jax.ShapeDtypeStruct`.
        activation: the one that layers read where it cannot be determined: one for all, or a mapping from names or
            patterns to activations.
        weights: "gaussian" or "orthogonal".
        only: names, patterns such as "encoder.*" or types of the layers to draw; a layer that is named is drawn even if
            it would be left alone otherwise.
        skip: names, patterns or types of the layers to leave alone.
        seed: the same seed gives the same weights.

    Returns:
        The plan, one row per weight layer.

    Raises:
        ValueError: if the model has no weight layer, or `only` or `skip` matches none.
        TypeError: if the model is not an nnx module; linen has `init_variables`.

    Warns:
        UnsteadyWarning: if no gain keeps networks of that depth together.

    >>> from flax import nnx
    >>> model = nnx.Sequential(nnx.Linear(8, 4, rngs=nnx.Rngs(0)), nnx.relu)
    >>> len(init(model, jnp.ones((1, 8))).drawn)
    1
    """
    if not isinstance(model, nnx.Module):
        raise TypeError(f"init: model must be an nnx module, got {type(model).__name__}; linen has init_variables")
    seed = whole("init", "seed", seed, *_SEEDS)
    trace = _traced(model, None, example, "init")
    draft = _draft(trace, activation, weights, Selection(only, skip, "init"))
    with progress("weights", len(draft.plan.drawn)) as job:
        for row, key in _keys(draft.plan, seed):
            layer = trace.parameters[row.name]
            layer.kernel[...] = _kernel(layer, row, weights, key)
            if layer.bias is not None and not _is_constant(layer.bias[...]):
                layer.bias[...] = jnp.zeros_like(layer.bias[...])
            job.advance()
    _warn(draft, "init")
    return draft.plan


def init_variables(
    module: Any,
    variables: Mapping[str, Any],
    example: Any,
    activation: Given = None,
    *,
    weights: Weights = "gaussian",
    only: Choice = None,
    skip: Choice = None,
    seed: int = 0,
) -> tuple[dict[str, Any], Plan]:
    """Return the variables of a linen module with new weights, and the plan applied; see `init` and `plan`.

    Args:
        module: a linen module.
        variables: its variables, which stay as they are.
        example: an input of the module, or a tuple of its arguments; arrays or `jax.ShapeDtypeStruct`.
        activation: the one that layers read where it cannot be determined: one for all, or a mapping from names or
            patterns to activations.
        weights: "gaussian" or "orthogonal".
        only: names, patterns such as "encoder.*" or types of the layers to draw; a layer that is named is drawn even if
            it would be left alone otherwise.
        skip: names, patterns or types of the layers to leave alone.
        seed: the same seed gives the same weights.

    Returns:
        The new variables, and the plan.

    Raises:
        ValueError: if the model has no weight layer, or `only` or `skip` matches none.
        TypeError: if the module is not one of linen; nnx modules have `init`.

    Warns:
        UnsteadyWarning: if no gain keeps networks of that depth together.

    >>> from flax import linen
    >>> module, x = linen.Sequential([linen.Dense(4), linen.relu]), jnp.ones((1, 8))
    >>> variables, plan = init_variables(module, module.init(jax.random.key(0), x), x)
    >>> variables["params"]["layers_0"]["kernel"].shape, len(plan.drawn)
    ((8, 4), 1)
    """
    if not isinstance(module, linen.Module):
        kind = type(module).__name__
        raise TypeError(f"init_variables: module must be a linen module, got {kind}; nnx modules have init")
    seed = whole("init_variables", "seed", seed, *_SEEDS)
    trace = _traced(module, variables, example, "init_variables")
    draft = _draft(trace, activation, weights, Selection(only, skip, "init_variables"))
    drawn = unfreeze(dict(variables))
    with progress("weights", len(draft.plan.drawn)) as job:
        for row, key in _keys(draft.plan, seed):
            layer = trace.parameters[row.name]
            leaf = drawn["params"]
            for part in row.name.split("/"):
                leaf = leaf[part]
            leaf["kernel"] = _kernel(layer, row, weights, key)
            if layer.bias is not None and not _is_constant(layer.bias):
                leaf["bias"] = jnp.zeros_like(layer.bias)
            job.advance()
    _warn(draft, "init_variables", 4)
    return drawn, draft.plan


def _traced(model: Any, variables: Mapping[str, Any] | None, example: Any, where: str) -> Trace:
    arguments = example if isinstance(example, tuple) else (example,)
    if isinstance(model, nnx.Module):
        trace = traced_nnx(model, arguments, where)
    elif not isinstance(model, linen.Module):
        raise TypeError(f"{where}: model must be a module of flax.nnx or flax.linen, got {type(model).__name__}")
    elif variables is None:
        raise ValueError(f"{where}: a linen module has its weights outside; pass variables=")
    else:
        trace = traced_linen(model, variables, arguments, where)
    if not trace.parameters:
        raise ValueError(f"{where}: the model has no weight layer that gradwalk knows")
    return trace


def _draft(trace: Trace, activation: Given, weights: Weights, selection: Selection) -> Draft:
    lookup = partial(activations.in_framework, framework="jax", where=selection.where)
    given = GivenActivations(activation, lookup, selection.where)
    return Draft(trace.dataflow, trace.layers, trace.left_alone, weights, given, selection)


def _keys(plan: Plan, seed: int) -> list[tuple[PlanRow, jax.Array]]:
    keys = jax.random.split(jax.random.key(seed), max(len(plan.drawn), 1))
    return list(zip(plan.drawn, keys, strict=False))


def _kernel(layer: Parameters, row: PlanRow, weights: Weights, key: jax.Array) -> jax.Array:
    """Return a new kernel of a layer, one orthogonal matrix per group."""
    (batch, inner, outer), groups, _ = layer.layout
    draw = random_walk(gain=row.gain, weights=weights, in_axis=inner, out_axis=outer, batch_axis=batch)
    *front, outputs = row.shape
    parts = groups if weights == "orthogonal" else 1
    drawn = [draw(each, (*front, outputs // parts), layer.kernel.dtype) for each in jax.random.split(key, parts)]
    return jnp.concatenate(drawn, axis=-1)


def _is_constant(bias: jax.Array) -> bool:
    """Return whether a bias has one value other than 0 in all entries."""
    return bool(jnp.all(bias == bias.ravel()[0]) & (bias.ravel()[0] != 0))


def _warn(draft: Draft, where: str, stacklevel: int = 3) -> None:
    if draft.unsteady:
        warnings.warn(f"{where}: {draft.unsteady}", UnsteadyWarning, stacklevel=stacklevel)

"""`plan` and `init`: the weights of a whole Keras model."""

import warnings
from functools import partial
from typing import Any

import keras

from gradwalk import activations
from gradwalk.chains import Choice, Draft, Given, GivenActivations, Selection
from gradwalk.checks import Weights
from gradwalk.gains import UnsteadyWarning
from gradwalk.keras.kernels import axes_of, draw
from gradwalk.keras.trace import Trace
from gradwalk.plans import Plan
from gradwalk.progress import progress


def plan(
    model: Any, *, activation: Given = None, weights: Weights = "gaussian", only: Choice = None, skip: Choice = None
) -> Plan:
    """Return what `init` would do to a Keras model: one row per weight layer; the model stays as it is.

    Functional and sequential models are read from their graph, models inside models included. Weights are drawn only
    where the law of the gradient is known: in chains, and behind norms. Never drawn unless `only` names them: frozen
    layers, layers that run more than once, that are zero or clearly scaled on purpose, that lead into sums, attention
    or unknown layers or read their output, and all layers of subclassed models, whose calls cannot be read.

    Args:
        model: a built keras.Model.
        activation: the one that layers read where it cannot be determined: one for all, or a mapping from names or
            patterns to activations.
        weights: "gaussian" or "orthogonal".
        only: names, patterns such as "encoder/*" or types of the layers to draw; a layer that is named is drawn even if
            it would be left alone otherwise.
        skip: names, patterns or types of the layers to leave alone.

    Returns:
        The plan, which prints as a table.

    Raises:
        ValueError: if the model has no weight layer, or `only` or `skip` matches none.

    >>> model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(2)])
    >>> [round(row.gain, 4) for row in plan(model).rows]
    [1.0673, 2.0236]
    """
    return _draft(Trace(model, "plan"), activation, weights, Selection(only, skip, "plan")).plan


def init(
    model: Any,
    activation: Given = None,
    *,
    weights: Weights = "gaussian",
    only: Choice = None,
    skip: Choice = None,
    seed: int | keras.random.SeedGenerator | None = None,
) -> Plan:
    """Draw the weights of a Keras model so that its gradient does an unbiased walk; return the plan applied.

    See `plan`, which takes the same arguments and changes nothing. Biases of the layers drawn become 0, except those
    with one value other than 0 in all entries, which were set on purpose.

    Args:
        model: a built keras.Model.
        activation: the one that layers read where it cannot be determined: one for all, or a mapping from names or
            patterns to activations.
        weights: "gaussian" or "orthogonal".
        only: names, patterns such as "encoder/*" or types of the layers to draw; a layer that is named is drawn even if
            it would be left alone otherwise.
        skip: names, patterns or types of the layers to leave alone.
        seed: an int gives the same weights at each call, None new ones; or a `keras.random.SeedGenerator`.

    Returns:
        The plan, one row per weight layer.

    Raises:
        ValueError: if the model has no weight layer, or `only` or `skip` matches none.
        TypeError: if the seed is something else.

    Warns:
        UnsteadyWarning: if no gain keeps networks of that depth together.

    >>> model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, "relu"), keras.layers.Dense(2)])
    >>> len(init(model, seed=0).drawn)
    2
    """
    if isinstance(seed, bool) or not isinstance(seed, int | keras.random.SeedGenerator | None):
        raise TypeError(f"init: seed must be an int or a keras.random.SeedGenerator, got seed={seed!r}")
    trace = Trace(model, "init")
    draft = _draft(trace, activation, weights, Selection(only, skip, "init"))
    source = seed if isinstance(seed, keras.random.SeedGenerator) else keras.random.SeedGenerator(seed)
    with progress("weights", len(draft.plan.drawn)) as job:
        for row in draft.plan.drawn:
            assert row.proposed is not None
            _draw(trace.kernels[row.name], row.proposed, weights, source)
            job.advance()
    if draft.unsteady:
        warnings.warn(f"init: {draft.unsteady}", UnsteadyWarning, stacklevel=2)
    return draft.plan


def _draft(trace: Trace, activation: Given, weights: Weights, selection: Selection) -> Draft:
    if not trace.kernels:
        raise ValueError(f"{selection.where}: the model has no weight layer that gradwalk knows")
    lookup = partial(activations.in_framework, framework="keras", where=selection.where)
    given = GivenActivations(activation, lookup, selection.where)
    return Draft(trace.dataflow, trace.layers, trace.left_alone, weights, given, selection)


def _draw(layer: Any, std: float, weights: Weights, seed: keras.random.SeedGenerator) -> None:
    """Draw the kernel of a layer, and clear its bias unless that was set on purpose."""
    kernel = layer.kernel
    axes, groups = axes_of(layer, len(kernel.shape)), int(getattr(layer, "groups", 1) or 1)
    kernel.assign(draw(tuple(kernel.shape), axes, std, weights, "float32", seed, groups))
    bias = getattr(layer, "bias", None)
    if bias is not None and not _is_constant(keras.ops.convert_to_numpy(bias.value)):
        bias.assign(keras.ops.zeros(bias.shape, bias.dtype))


def _is_constant(bias: Any) -> bool:
    """Return whether a bias has one value other than 0 in all entries."""
    first = bias.flat[0]
    return bool(first != 0 and (bias == first).all())

"""The axes of Keras kernels, and kernels drawn with them."""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras.src.backend.common import global_state

from gradwalk.chains import Axes
from gradwalk.checks import Weights

_DEPTHWISE = (keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D)


def axes_of(layer: Any, rank: int) -> Axes:
    """Return the axes of a layer's kernel of that rank; (window..., in, out) for a layer of no other order."""
    if isinstance(layer, keras.layers.EinsumDense):
        return Axes.of_equation(layer.equation)
    if isinstance(layer, _DEPTHWISE):
        return Axes((rank - 2,), tuple(range(rank - 2)), (rank - 1,))
    return Axes.of_convolution(rank)


def layer_being_built() -> Any:
    """Return the layer that is creating a variable now, None outside of layers.

    An initialiser is told the shape alone, from which (in, heads, size) of an EinsumDense and (kernel, in, out) of a
    Conv1D cannot be told apart. Keras keeps the layers whose name scopes are open.
    """
    stack = global_state.get_global_attribute("name_scope_stack") or []
    return next((scope.caller for scope in reversed(stack) if getattr(scope, "caller", None) is not None), None)


def draw(shape: Sequence[int], axes: Axes, std: float, weights: Weights, dtype: str, seed: Any, groups: int = 1) -> Any:
    """Return a kernel whose entries have this standard deviation; orthogonal matrices one per batch entry and group."""
    if weights == "gaussian":
        return keras.random.normal(shape, stddev=std, dtype=dtype, seed=seed)
    order = (*axes.batch, *axes.inner, *axes.outer)
    sizes = [shape[axis] for axis in order]
    split = len(axes.batch) + len(axes.inner)
    fan_in, outputs = axes.fan_in(shape), math.prod(sizes[split:]) // groups
    count = math.prod(sizes[: len(axes.batch)])
    source = keras.random.SeedGenerator(seed) if isinstance(seed, int) and count * groups > 1 else seed
    orthogonal = keras.initializers.Orthogonal(std * math.sqrt(max(fan_in, outputs)), seed=source)
    rows = [
        keras.ops.concatenate([orthogonal((fan_in, outputs), dtype) for _ in range(groups)], axis=1)
        for _ in range(count)
    ]
    back = [order.index(axis) for axis in range(len(shape))]
    return keras.ops.transpose(keras.ops.reshape(keras.ops.stack(rows), sizes), back)

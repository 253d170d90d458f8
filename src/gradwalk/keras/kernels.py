"""The axes of a Keras kernel by what they are, and kernels drawn with them."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras.src.backend.common import global_state

from gradwalk.checks import Weights

_DEPTHWISE = (keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D)


class Axes(NamedTuple):
    """The axes of a kernel: of the matrices that it holds, of their inputs and of their outputs."""

    batch: tuple[int, ...]
    inner: tuple[int, ...]
    outer: tuple[int, ...]

    @classmethod
    def of(cls, layer: Any, rank: int) -> "Axes":
        """Return the axes of a layer's kernel of that rank; (kernel..., in, out) for a layer of no other order."""
        if isinstance(layer, keras.layers.EinsumDense):
            return cls._of_equation(layer.equation)
        if isinstance(layer, _DEPTHWISE):
            return cls((rank - 2,), tuple(range(rank - 2)), (rank - 1,))
        return cls((), tuple(range(rank - 1)), (rank - 1,))

    @classmethod
    def _of_equation(cls, equation: str) -> "Axes":
        """Return the axes of the second operand of an einsum."""
        operands, output = equation.replace(" ", "").split("->")
        signal, kernel = operands.split(",")
        numbered = list(enumerate(kernel))
        return cls(
            tuple(axis for axis, index in numbered if index in output and index in signal),
            tuple(axis for axis, index in numbered if index not in output),
            tuple(axis for axis, index in numbered if index in output and index not in signal),
        )

    def fan_in(self, shape: Sequence[int]) -> int:
        """Return how many inputs an output sums."""
        return math.prod(shape[axis] for axis in self.inner)


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

"""Random walk initialiser for JAX kernels: (in, out) for a dense layer, (kernel..., in, out) for a convolution."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.nn.initializers import Initializer

from gradwalk import activations, checks, gains
from gradwalk.activations import Activation
from gradwalk.checks import Weights

Axes = int | Sequence[int]


def random_walk(
    activation: str | Activation | Callable[..., Any] = "linear",
    *,
    gain: float | None = None,
    depth: int | None = None,
    weights: Weights = "gaussian",
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: Any = None,
) -> Initializer:
    """Return init(key, shape, dtype), which draws weights of standard deviation gain / sqrt(fan_in), eq. 10.

    The normal distribution is not truncated, unlike that of `he_normal`. With weights="orthogonal" the (fan_in, out)
    matrix has orthonormal rows or columns, scaled so that its entries have the same variance.

    Args:
        activation: the one whose output the layer reads, "linear" for the first layer: a name, a function such as
            jax.nn.gelu, or a function passed to `gradwalk.register(jax=)`.
        gain: the factor on the weights (default: `gradwalk.gain(activation, fan_in, depth)`).
        depth: the number of layers that read that activation; all but linear, relu and leaky_relu need it.
        weights: "gaussian" or "orthogonal".
        in_axis: the axis or axes of the inputs, as in `he_normal`.
        out_axis: the axis or axes of the outputs.
        batch_axis: the axes of independent kernels. Axes that are neither in, out nor batch are the receptive field.
        dtype: of the weights, where init is called without one.

    Returns:
        An initialiser in the style of `jax.nn.initializers`.

    Raises:
        ValueError: if an argument is out of range, or no activation has that name; by init, if the shape has no such
            axes, the depth is missing, or the dtype is not a real floating-point type.
        TypeError: if an argument has the wrong type.

    >>> init = random_walk("relu")
    >>> init(jax.random.key(0), (784, 100)).shape
    (784, 100)
    """
    f = activations.in_framework(activation, "jax", "random_walk")
    checks.one_of("random_walk", "weights", weights, checks.WEIGHTS)
    fixed = None if gain is None else checks.positive("random_walk", "gain", gain, *checks.GAIN_RANGE)
    default_dtype = dtype

    def init(key: jax.Array, shape: Sequence[int], dtype: Any = default_dtype, out_sharding: Any = None) -> jax.Array:
        result_dtype = jnp.result_type(float) if dtype is None else jnp.dtype(dtype)
        if not jnp.issubdtype(result_dtype, jnp.floating):
            raise ValueError(f"random_walk: dtype must be a real floating-point type, got dtype={result_dtype}")
        kernel = _Kernel.of(shape, in_axis, out_axis, batch_axis)
        scale = gains.gain(f, kernel.fan_in, depth, weights=weights) if fixed is None else fixed
        # A normal drawn in bfloat16 ends at 2.9 standard deviations and lacks 0.6 % of its variance, which over 200
        # layers is a factor of 2.
        drawn = jnp.promote_types(result_dtype, jnp.float32)
        draw = _gaussian if weights == "gaussian" else _orthogonal
        return draw(key, kernel, scale, drawn, out_sharding).astype(result_dtype)

    return init


class _Kernel(NamedTuple):
    """The shape of a kernel, and its axes by what they are: batch, those that the fan-in counts, output."""

    shape: tuple[int, ...]
    batch: list[int]
    inner: list[int]
    outer: list[int]

    @classmethod
    def of(cls, shape: Sequence[int], in_axis: Axes, out_axis: Axes, batch_axis: Axes) -> "_Kernel":
        named = [list(axes) if isinstance(axes, Sequence) else [axes] for axes in (batch_axis, in_axis, out_axis)]
        flat = [axis for axes in named for axis in axes]
        rank = len(shape)
        if any(not -rank <= axis < rank for axis in flat) or len({axis % rank for axis in flat}) < len(flat):
            raise ValueError(
                f"random_walk: in_axis, out_axis and batch_axis must name different axes of the kernel, "
                f"got in_axis={in_axis}, out_axis={out_axis}, batch_axis={batch_axis} for shape={tuple(shape)}"
            )
        batch, _, outer = ([axis % rank for axis in axes] for axes in named)
        inner = [axis for axis in range(rank) if axis not in (*batch, *outer)]
        kernel = cls(tuple(shape), batch, inner, outer)
        if kernel.fan_in == 0:
            raise ValueError(f"random_walk: the fan-in must be at least 1, got shape={tuple(shape)}")
        return kernel

    @property
    def fan_in(self) -> int:
        return self._size(self.inner)

    @property
    def fan_out(self) -> int:
        return self._size(self.outer)

    @property
    def matrices(self) -> int:
        return self._size(self.batch)

    def _size(self, axes: list[int]) -> int:
        return math.prod(self.shape[axis] for axis in axes)


def _gaussian(key: jax.Array, kernel: _Kernel, gain: float, dtype: Any, out_sharding: Any) -> jax.Array:
    sharding = (
        {} if out_sharding is None else {"out_sharding": out_sharding}
    )  # older versions of JAX have no such option
    return jax.random.normal(key, kernel.shape, dtype, **sharding) * (gain / math.sqrt(kernel.fan_in))


def _orthogonal(key: jax.Array, kernel: _Kernel, gain: float, dtype: Any, out_sharding: Any) -> jax.Array:
    if out_sharding is not None:
        raise NotImplementedError("random_walk: orthogonal weights cannot be drawn sharded; leave out out_sharding=")
    orthogonal = jax.nn.initializers.orthogonal(gain * math.sqrt(max(1.0, kernel.fan_out / kernel.fan_in)))

    def matrix(key: jax.Array) -> jax.Array:
        return orthogonal(key, (kernel.fan_in, kernel.fan_out), dtype)

    matrices = jax.vmap(matrix)(jax.random.split(key, kernel.matrices)) if kernel.batch else matrix(key)
    order = (*kernel.batch, *kernel.inner, *kernel.outer)
    return jnp.moveaxis(matrices.reshape([kernel.shape[axis] for axis in order]), range(len(order)), order)

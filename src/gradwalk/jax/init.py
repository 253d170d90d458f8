"""The initialiser for JAX kernels: (in, out) for a dense layer, (kernel..., in, out) for a convolution."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.nn.initializers import Initializer

from gradwalk import activations, checks, gains
from gradwalk.activations import Activation


def random_walk(
    activation: str | Activation = "linear",
    *,
    gain: float | None = None,
    depth: int | None = None,
    weights: str = "gaussian",
    in_axis: int | Sequence[int] = -2,
    out_axis: int | Sequence[int] = -1,
    batch_axis: int | Sequence[int] = (),
    dtype: Any = None,
) -> Initializer:
    """Return init(key, shape, dtype), whose weights have standard deviation gain / sqrt(fan_in), eq. 10.

    `activation` is the one whose output the layer reads: "linear" for the first layer. The gain is
    `gradwalk.gain(activation, fan_in, depth)` unless given; all but linear, relu and leaky_relu need the depth.
    The normal is not truncated, unlike that of `he_normal`. weights="orthogonal" gives a (fan_in, out) matrix with
    orthonormal rows or columns, scaled to the same variance of an entry. Axes are counted as in `he_normal`: those
    that are neither in, out nor batch make up the receptive field.

    >>> init = random_walk("relu")
    >>> init(jax.random.key(0), (784, 100)).shape
    (784, 100)
    """
    f = activations.activation(activation)
    checks.one_of("random_walk", "weights", weights, checks.WEIGHTS)
    fixed = None if gain is None else checks.positive("random_walk", "gain", gain, *checks.GAIN_RANGE)
    default_dtype = dtype

    def init(key: jax.Array, shape: Sequence[int], dtype: Any = default_dtype, out_sharding: Any = None) -> jax.Array:
        wanted = jnp.result_type(float) if dtype is None else jnp.dtype(dtype)
        if not jnp.issubdtype(wanted, jnp.floating):
            raise ValueError(f"random_walk: dtype must be a real floating type, got dtype={wanted}")
        batch, inner, outer = _axes(shape, in_axis, out_axis, batch_axis)
        fan_in, fan_out = (math.prod(shape[axis] for axis in axes) for axes in (inner, outer))
        if fan_in == 0:
            raise ValueError(f"random_walk: the fan-in must be at least 1, got shape={tuple(shape)}")
        scale = gains.gain(f, fan_in, depth, weights=weights) if fixed is None else fixed
        # Drawn in bfloat16 a normal ends at 2.9 deviations and lacks 0.6 % of its variance: a factor 2 in 200 layers.
        drawn = jnp.promote_types(wanted, jnp.float32)
        if weights == "gaussian":
            where = {} if out_sharding is None else {"out_sharding": out_sharding}  # older JAX knows none
            unit = jax.random.normal(key, tuple(shape), drawn, **where)
            return (unit * (scale / math.sqrt(fan_in))).astype(wanted)
        if out_sharding is not None:
            raise NotImplementedError(
                "random_walk: orthogonal weights cannot be drawn sharded; leave out out_sharding="
            )
        orthogonal = jax.nn.initializers.orthogonal(scale * math.sqrt(max(1.0, fan_out / fan_in)))
        count = math.prod(shape[axis] for axis in batch)

        def matrix(key: jax.Array) -> jax.Array:
            return orthogonal(key, (fan_in, fan_out), drawn)

        matrices = jax.vmap(matrix)(jax.random.split(key, count)) if batch else matrix(key)
        order = (*batch, *inner, *outer)
        kernel = matrices.reshape([shape[axis] for axis in order])
        return jnp.moveaxis(kernel, range(len(order)), order).astype(wanted)

    return init


def _axes(
    shape: Sequence[int],
    in_axis: int | Sequence[int],
    out_axis: int | Sequence[int],
    batch_axis: int | Sequence[int],
) -> tuple[list[int], list[int], list[int]]:
    """Return the batch axes, those that count for the fan-in in the order of the shape, and the output axes."""
    named = [list(axes) if isinstance(axes, Sequence) else [axes] for axes in (batch_axis, in_axis, out_axis)]
    flat = [axis for axes in named for axis in axes]
    rank = len(shape)
    if any(not -rank <= axis < rank for axis in flat) or len({axis % rank for axis in flat}) < len(flat):
        raise ValueError(
            f"random_walk: in_axis, out_axis and batch_axis must name different axes of the kernel, "
            f"got in_axis={in_axis}, out_axis={out_axis}, batch_axis={batch_axis} for shape={tuple(shape)}"
        )
    batch, _, outer = ([axis % rank for axis in axes] for axes in named)
    return batch, [axis for axis in range(rank) if axis not in (*batch, *outer)], outer

"""The layers of Flax: what each does to a signal, and how its kernel is laid out."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from flax import linen, nnx

from gradwalk.chains import Axes, Node, Op

Layer = Any  # a module of nnx or of linen

_LINEAR: Any = (nnx.Linear, linen.Dense)
_GENERAL: Any = (nnx.LinearGeneral, linen.DenseGeneral)
_EINSUM: Any = (nnx.Einsum, linen.Einsum)
_CONV: Any = (nnx.Conv, linen.Conv)
_DROPOUT: Any = (nnx.Dropout, linen.Dropout)
_EMBED: Any = (nnx.Embed, linen.Embed)
_ATTENTION: Any = (nnx.MultiHeadAttention, linen.MultiHeadDotProductAttention)
_NORM: Any = (
    *(nnx.LayerNorm, nnx.RMSNorm, nnx.BatchNorm, nnx.GroupNorm, nnx.InstanceNorm),
    *(linen.LayerNorm, linen.RMSNorm, linen.BatchNorm, linen.GroupNorm, linen.InstanceNorm),
)
_WEIGHTS: Any = (*_LINEAR, *_GENERAL, *_EINSUM, *_CONV)
_WHY = {
    "attention is outside the theory": _ATTENTION,
    "a lookup table, not a weight layer of the walk": _EMBED,
    "a transposed convolution: its fan-in depends on the strides": (nnx.ConvTranspose, linen.ConvTranspose),
    "a norm: its parameters stay as they are": _NORM,
}


def is_weight_layer(layer: Layer) -> bool:
    """Return whether a layer is a product with a kernel whose law is known."""
    return type(layer) in _WEIGHTS


def is_known(layer: Layer) -> bool:
    """Return whether a layer is read as a whole."""
    return isinstance(layer, (*_WEIGHTS, *_DROPOUT, *_EMBED, *_ATTENTION, *_NORM))


def is_attention(layer: Layer) -> bool:
    """Return whether the layers inside a layer are left alone with it."""
    return isinstance(layer, _ATTENTION)


def why_left_alone(layer: Layer) -> str:
    """Return why a module with parameters is no weight layer of the walk."""
    return next((why for why, kinds in _WHY.items() if isinstance(layer, kinds)), "gradwalk does not know this module")


def node_of(layer: Layer, name: str, reads: tuple[int, ...]) -> Node:
    """Return what a layer does."""
    if is_weight_layer(layer):
        return Node(Op.WEIGHTS, reads, name)
    if isinstance(layer, _NORM):
        return Node(Op.NORM, reads, name)
    if isinstance(layer, _DROPOUT):
        whole = not layer.broadcast_dims
        return Node(Op.DROPOUT, reads, "dropout", amount=float(layer.rate) if whole else None)
    return Node(Op.INPUT if isinstance(layer, _EMBED) else Op.UNKNOWN, reads, f"{name} ({type(layer).__name__})")


def output_shape(layer: Layer, x: Any) -> tuple[int, ...] | None:
    """Return the shape of what a layer returns that is not run, None for one that is."""
    if isinstance(layer, (*_NORM, *_DROPOUT)):
        return tuple(x.shape)
    if not is_attention(layer):
        return None
    features = getattr(layer, "out_features", None) or x.shape[-1]
    return (*x.shape[:-1], int(features))


class Kernel(NamedTuple):
    """How the kernel of a layer is laid out; note: what is not counted in its law."""

    axes: Axes
    groups: int = 1
    note: str = ""


def kernel_of(layer: Layer, shape: tuple[int, ...]) -> Kernel:
    """Return how a kernel of this shape is laid out in its layer."""
    if isinstance(layer, _EINSUM):
        return Kernel(Axes.of_equation(layer.einsum_str))
    if isinstance(layer, _GENERAL):
        return Kernel(_general_axes(layer, len(shape)))
    if isinstance(layer, _CONV):
        padded = layer.padding not in ("VALID", "CIRCULAR", 0) and max(shape[:-2], default=1) > 1
        return Kernel(Axes.of_convolution(len(shape)), int(layer.feature_group_count), "padding: not counted" * padded)
    return Kernel(Axes.of_convolution(len(shape)))


def _general_axes(layer: Layer, rank: int) -> Axes:
    batch = len(layer.batch_axis) if isinstance(layer.batch_axis, Mapping) else 0
    outputs = layer.features if isinstance(layer, linen.DenseGeneral) else layer.out_features
    outer = len(outputs) if isinstance(outputs, tuple | list) else 1
    axes = tuple(range(rank))
    return Axes(axes[:batch], axes[batch : rank - outer], axes[rank - outer :])

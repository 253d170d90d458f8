"""What the layers and operations of Keras do to a signal on its way through a network."""

import math
from typing import Any

from keras import layers

from gradwalk import activations
from gradwalk.activations import FAMILIES, Activation
from gradwalk.chains import Node, Op


def _kinds(*names: str) -> Any:
    """Return a tuple of layers by their names, # for 1D, 2D and 3D; older versions of Keras lack some."""
    spelled = [name.replace("#", f"{rank}D") for name in names for rank in (1, 2, 3)]
    return tuple(dict.fromkeys(getattr(layers, name) for name in spelled if hasattr(layers, name)))


WEIGHT_LAYERS = _kinds("Dense", "EinsumDense", "Conv#", "DepthwiseConv#")
_NORMS = _kinds("BatchNormalization", "GroupNormalization", "LayerNormalization", "RMSNormalization")
_PASSING = _kinds("InputLayer", "Identity", "Flatten", "Reshape", "Permute", "Masking", "ZeroPadding#", "Cropping#")
_PASSING_OPERATIONS = ("Reshape", "Transpose", "Squeeze", "ExpandDims", "Cast", "Flip", "Moveaxis", "SwapAxes")
_AVERAGES = _kinds("AveragePooling#", "GlobalAveragePooling#")
_UNCOUNTED = {
    "max pooling": _kinds("MaxPooling#", "GlobalMaxPooling#"),
    "resampling": _kinds("UpSampling#", "RepeatVector"),
    "a constant factor": _kinds("Rescaling"),
    "noise": _kinds("GaussianNoise", "GaussianDropout", "AlphaDropout"),
    "dropout of whole channels": _kinds("SpatialDropout#"),
}
_WHY = {
    "attention is outside the theory": _kinds(
        "MultiHeadAttention", "GroupQueryAttention", "Attention", "AdditiveAttention"
    ),
    "a recurrent layer is outside the theory": _kinds("RNN", "Bidirectional", "ConvLSTM#"),
    "a lookup table, not a weight layer of the walk": _kinds("Embedding"),
    "a transposed convolution: its fan-in depends on the strides": _kinds("Conv#Transpose"),
    "two kernels in one layer: their product has no known law": _kinds("SeparableConv#"),
    "a norm: its parameters stay as they are": _NORMS,
}


def why_left_alone(layer: Any) -> str:
    """Return why a layer with parameters is no weight layer of the walk."""
    return next((why for why, kinds in _WHY.items() if isinstance(layer, kinds)), "gradwalk does not know this layer")


def is_attention(layer: Any) -> bool:
    """Return whether a layer with layers inside is left alone as a whole."""
    return any(isinstance(layer, kinds) for kinds in _WHY.values())


def node_of(operation: Any, reads: tuple[int, ...]) -> Node:
    """Return what an operation without a kernel of its own does."""
    kind, label = type(operation).__name__, f"{operation.name} ({type(operation).__name__})"
    f = activation_of(operation)
    if f is not None:
        return Node(Op.ACTIVATION, reads, label, f)
    if isinstance(operation, _NORMS):
        return Node(Op.NORM, reads, label)
    if isinstance(operation, layers.Dropout):
        return Node(Op.DROPOUT, reads, "dropout", amount=float(operation.rate))
    if isinstance(operation, _PASSING) or kind in _PASSING_OPERATIONS:
        return Node(Op.PASSING, reads, label)
    if isinstance(operation, _AVERAGES):
        return Node(Op.PASSING, reads, "average pooling", amount=_averaged(operation))
    if isinstance(operation, layers.Embedding):
        return Node(Op.INPUT, (), label)
    for words, kinds in _UNCOUNTED.items():
        if isinstance(operation, kinds):
            return Node(Op.PASSING, reads, words, amount=None)
    return Node(Op.UNKNOWN, reads, label)


def activation_of(operation: Any) -> Activation | None:
    """Return the activation that a layer or an operation computes, None for those that compute none that is known."""
    if isinstance(operation, layers.Activation):
        return known_function(operation.activation)
    if isinstance(operation, layers.ReLU):
        return _relu_of(operation)
    if isinstance(operation, layers.PReLU):
        return None  # its slopes are weights
    return _by_class_name(operation)


def known_function(function: Any) -> Activation | None:
    """Return the activation that a function of Keras computes, None for one that is not known."""
    try:
        return activations.in_framework(function, "keras")
    except TypeError:
        return None


def _relu_of(layer: Any) -> Activation | None:
    limits = layer.max_value, float(layer.negative_slope), float(layer.threshold)
    if limits == (6.0, 0.0, 0.0):
        return activations.activation("relu6")
    if limits[0] is not None or limits[2] != 0:
        return None
    return activations.activation("relu" if limits[1] == 0 else f"leaky_relu({limits[1]!r})")


def _by_class_name(operation: Any) -> Activation | None:
    """Return the activation that a class such as LeakyReLU or the operation HardSilu is named after."""
    if not type(operation).__module__.startswith("keras.") or isinstance(operation, WEIGHT_LAYERS):
        return None
    try:
        family = FAMILIES[activations.activation(type(operation).__name__).family]
    except ValueError:
        return None
    names = [counterpart.parameter for counterpart in family.keras if counterpart.parameter]
    return family.member(float(getattr(operation, names[0])) if names else None)


def _averaged(layer: Any) -> float | None:
    """Return ln of the factor on |delta| of pooling over k positions, -ln(k) / 2; None where windows overlap."""
    if hasattr(layer, "pool_size"):
        return -0.5 * math.log(math.prod(layer.pool_size)) if layer.pool_size == layer.strides else None
    shape = layer.input.shape[2:] if layer.data_format == "channels_first" else layer.input.shape[1:-1]
    return None if None in shape else -0.5 * math.log(math.prod(shape))

"""Random walk initialiser for Keras kernels."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import keras

from gradwalk import activations, checks, gains
from gradwalk.activations import Activation
from gradwalk.checks import Weights
from gradwalk.keras.kernels import axes_of, draw, layer_being_built


@keras.saving.register_keras_serializable(package="gradwalk")
class RandomWalk(keras.initializers.Initializer):  # type: ignore[misc]
    """Weights of standard deviation gain / sqrt(fan_in), eq. 10, with which the gradient does an unbiased walk.

    The normal distribution is not truncated, unlike that of `HeNormal`. With weights="orthogonal" the (fan_in, out)
    matrix has orthonormal rows or columns, scaled so that its entries have the same variance. The fan-in counts the
    inputs that an output sums, in `EinsumDense`, the projections of `MultiHeadAttention` and depthwise convolutions
    too; not in transposed ones, where it depends on the strides.

    Args:
        activation: the one whose output the layer reads, "linear" for the first layer: a name, a function of
            `keras.activations`, or a function passed to `gradwalk.register(keras=)`. "leaky_relu" without a parameter
            has Keras's slope, 0.2.
        gain: the factor on the weights (default: `gradwalk.gain(activation, fan_in, depth)`).
        depth: the number of layers that read that activation; all but linear, relu and leaky_relu need it.
        weights: "gaussian" or "orthogonal".
        seed: an int gives the same weights at every call, as everywhere in Keras; a `keras.random.SeedGenerator` gives
            new ones at each call. With None the initialiser has a SeedGenerator of its own, so that layers can share it
            (Keras's own initialisers would give all those layers the same weights); `keras.utils.set_random_seed` makes
            it repeatable.

    Raises:
        ValueError: if an argument is out of range, or no activation has that name.
        TypeError: if an argument has the wrong type.

    >>> RandomWalk("relu", seed=0)((784, 100)).shape
    (784, 100)
    """

    def __init__(
        self,
        activation: str | Activation | Callable[..., Any] = "linear",
        *,
        gain: float | None = None,
        depth: int | None = None,
        weights: Weights = "gaussian",
        seed: Any = None,
    ) -> None:
        self.activation = activations.in_framework(activation, "keras", "RandomWalk")
        self.gain = None if gain is None else checks.positive("RandomWalk", "gain", gain, *checks.GAIN_RANGE)
        self.depth = None if depth is None else checks.whole("RandomWalk", "depth", depth, most=checks.DEEPEST)
        self.weights = checks.one_of("RandomWalk", "weights", weights, checks.WEIGHTS)
        self._given_seed = keras.saving.deserialize_keras_object(seed) if isinstance(seed, dict) else seed
        self.seed = keras.random.SeedGenerator() if seed is None else self._given_seed
        if isinstance(self.seed, bool) or not isinstance(self.seed, int | keras.random.SeedGenerator):
            raise TypeError(f"RandomWalk: seed must be an int or a keras.random.SeedGenerator, got seed={seed!r}")

    def __call__(self, shape: Sequence[int], dtype: Any = None) -> Any:
        """Return a kernel of this shape."""
        if len(shape) < 2 or 0 in shape[:-1]:
            raise ValueError(
                f"RandomWalk: shape must be (in, out) or (kernel..., in, out) with a fan-in of at least 1, "
                f"got shape={tuple(shape)}"
            )
        result_dtype = keras.backend.standardize_dtype(dtype)
        if not keras.backend.is_float_dtype(result_dtype):
            raise ValueError(f"RandomWalk: dtype must be a floating-point type, got dtype={result_dtype}")
        # A normal drawn in bfloat16 ends at 2.9 standard deviations and lacks 0.6 % of its variance, which over 200
        # layers is a factor of 2.
        drawn = "float64" if result_dtype == "float64" else "float32"
        axes = axes_of(layer_being_built(), len(shape))
        fan_in = axes.fan_in(shape)
        gain = gains.gain(self.activation, fan_in, self.depth, weights=self.weights) if self.gain is None else self.gain
        kernel = draw(shape, axes, gain / math.sqrt(fan_in), self.weights, drawn, self.seed)
        return keras.ops.cast(kernel, result_dtype)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments as plain values; a SeedGenerator is saved with its initial seed."""
        return {
            "activation": self._saved_name(),
            "gain": self.gain,
            "depth": self.depth,
            "weights": self.weights,
            "seed": keras.saving.serialize_keras_object(self._given_seed),
        }

    def _saved_name(self) -> str:
        """Return the name by which the activation is found again."""
        name = self.activation.name
        try:
            found_again = activations.activation(name) == self.activation
        except ValueError:
            found_again = False
        if not found_again:
            raise TypeError(
                "RandomWalk: an activation that is not registered cannot be saved; pass its function to "
                f"gradwalk.register() first, got {name!r}"
            )
        return name

"""The initialiser for Keras kernels: (in, out) for a dense layer, (kernel..., in, out) for a convolution."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import keras

from gradwalk import activations, checks, gains
from gradwalk.activations import Activation


@keras.saving.register_keras_serializable(package="gradwalk")
class RandomWalk(keras.initializers.Initializer):  # type: ignore[misc]
    """Weights of standard deviation gain / sqrt(fan_in), eq. 10, at which the gradient does an unbiased walk.

    `activation` is the one whose output the layer reads, by name or as a function of `keras.activations`: "linear"
    for the first layer. The gain is `gradwalk.gain(activation, fan_in, depth)` unless given; all but linear, relu and
    leaky_relu need the depth. A plain "leaky_relu" has Keras's slope, 0.2. The normal is not truncated, unlike that of
    `HeNormal`. weights="orthogonal" gives a (fan_in, out) matrix with orthonormal rows or columns, scaled to the same
    variance of an entry. Kernels of transposed and depthwise layers have other axes: the fan-in counted is not theirs.

    `seed`: with an int every call gives the same weights, as everywhere in Keras; with a `keras.random.SeedGenerator`
    each call gives new ones. None makes a SeedGenerator of its own, so that layers may share one initialiser
    (Keras's own initialisers would then give all layers the same weights); `keras.utils.set_random_seed` fixes it.

    >>> RandomWalk("relu", seed=0)((784, 100)).shape
    (784, 100)
    """

    def __init__(
        self,
        activation: str | Activation | Callable[..., Any] = "linear",
        *,
        gain: float | None = None,
        depth: int | None = None,
        weights: str = "gaussian",
        seed: Any = None,
    ) -> None:
        self.activation = _named(activation)
        self.gain = None if gain is None else checks.positive("RandomWalk", "gain", gain, *checks.GAIN_RANGE)
        self.depth = None if depth is None else checks.whole("RandomWalk", "depth", depth, most=checks.DEEPEST)
        self.weights = checks.one_of("RandomWalk", "weights", weights, checks.WEIGHTS)
        self._given_seed = keras.saving.deserialize_keras_object(seed) if isinstance(seed, dict) else seed
        self.seed = keras.random.SeedGenerator() if seed is None else self._given_seed
        if isinstance(self.seed, bool) or not isinstance(self.seed, int | keras.random.SeedGenerator):
            raise TypeError(f"RandomWalk: seed must be an int or a keras.random.SeedGenerator, got seed={seed!r}")
        self._f = activations.activation(self.activation)

    def __call__(self, shape: Sequence[int], dtype: Any = None) -> Any:
        """Return a kernel of that shape."""
        if len(shape) < 2 or 0 in shape[:-1]:
            raise ValueError(
                f"RandomWalk: shape must be (in, out) or (kernel..., in, out) with a fan-in of at least 1, "
                f"got shape={tuple(shape)}"
            )
        wanted = keras.backend.standardize_dtype(dtype)
        if not keras.backend.is_float_dtype(wanted):
            raise ValueError(f"RandomWalk: dtype must be a floating type, got dtype={wanted}")
        # Drawn in bfloat16 a normal ends at 2.9 deviations and lacks 0.6 % of its variance: a factor 2 in 200 layers.
        drawn = "float64" if wanted == "float64" else "float32"
        fan_in = math.prod(shape[:-1])
        gain = gains.gain(self._f, fan_in, self.depth, weights=self.weights) if self.gain is None else self.gain
        if self.weights == "gaussian":
            kernel = keras.random.normal(shape, stddev=gain / math.sqrt(fan_in), dtype=drawn, seed=self.seed)
        else:
            scale = gain * math.sqrt(max(1.0, shape[-1] / fan_in))
            kernel = keras.initializers.Orthogonal(scale, seed=self.seed)(shape, drawn)
        return keras.ops.cast(kernel, wanted)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments as plain values; a SeedGenerator is saved with the seed it began with."""
        if isinstance(self.activation, Activation):
            raise TypeError(
                f"RandomWalk: a gradwalk.Activation cannot be saved; pass gradwalk.register() the function and "
                f"RandomWalk its name, got {self.activation.name!r}"
            )
        return {
            "activation": self.activation,
            "gain": self.gain,
            "depth": self.depth,
            "weights": self.weights,
            "seed": keras.saving.serialize_keras_object(self._given_seed),
        }


def _named(activation: str | Activation | Callable[..., Any]) -> str | Activation:
    """Return the name in gradwalk of a Keras activation; what is none of Keras's comes back."""
    if isinstance(activation, str | Activation):
        name = activation
    elif getattr(keras.activations, getattr(activation, "__name__", ""), None) is activation:
        name = activation.__name__
    else:
        raise TypeError(f"RandomWalk: activation must be a name or one of keras.activations, got {activation!r}")
    if isinstance(name, str) and name.lower().replace("_", "") == "leakyrelu":
        return "leaky_relu(0.2)"  # 0.01 in torch and JAX: over 200 layers the wrong one is a factor of 50
    return name

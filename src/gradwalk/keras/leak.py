"""`Leak` for Keras: an activation with a leak that is saved with its model."""

from collections.abc import Callable
from typing import Any

import keras

from gradwalk.activations import leaks


@keras.saving.register_keras_serializable(package="gradwalk")
class Leak(leaks.Leak):
    """f_s(a) = s a + (1 - s) f(a): an activation with a leak s, from 0, which is f itself, to below 1.

    A residual branch inside the layer: the nearer s is to 1, the more directions of inputs and gradients pass a deep
    network, and the nearer the network is to a linear one. It is an activation like those of `keras.activations`:
    layers take it and save it, and `RandomWalk`, `plan` and `init` recognise it.

    Args:
        activation: the function f, or its name in Keras.
        leak: the share s.

    Attributes:
        activation: the function f.
        leak: the share s.

    Raises:
        ValueError: if the leak is not at least 0 and below 1, or Keras knows no activation of that name.

    >>> layer = keras.layers.Dense(8, activation=Leak("gelu", leak=0.8))
    >>> layer.activation.leak
    0.8
    """

    def __init__(self, activation: str | dict[str, Any] | Callable[[Any], Any], leak: float) -> None:
        super().__init__(keras.activations.get(activation), leak)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments as plain values."""
        return {"activation": keras.activations.serialize(self.activation), "leak": self.leak}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Leak":
        """Return what `get_config` describes."""
        return cls(**config)

"""`Leak`, an activation with a leak as a function of arrays of any framework."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gradwalk import checks


@dataclass(frozen=True)
class Leak:
    """f_s(a) = s a + (1 - s) f(a): an activation with a leak s, from 0, which is f itself, to below 1.

    A residual branch inside the layer: the nearer s is to 1, the more directions of inputs and gradients pass a deep
    network, and the nearer the network is to a linear one. It is a function like f, of arrays of JAX, Keras or NumPy,
    and initialisers and plans recognise it.

    Attributes:
        activation: the function f, such as `jax.nn.gelu`.
        leak: the share s.

    Raises:
        ValueError: if the leak is not at least 0 and below 1.
        TypeError: if the activation is not a function.

    >>> import numpy as np
    >>> Leak(np.tanh, leak=0.5)(np.array([0.0, 20.0]))
    array([ 0. , 10.5])
    """

    activation: Callable[[Any], Any]
    leak: float

    def __post_init__(self) -> None:
        if not callable(self.activation):
            raise TypeError(f"Leak: activation must be a function such as jax.nn.gelu, got {self.activation!r}")
        object.__setattr__(self, "leak", checks.rate("Leak", "leak", self.leak))

    def __call__(self, a: Any) -> Any:
        """Return s a + (1 - s) f(a)."""
        return self.leak * a + (1 - self.leak) * self.activation(a)

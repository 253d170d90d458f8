"""Activations: f, its derivative and kinks, and the counterparts of each in torch, JAX and Keras.

f is used as it is. The paper normalises f'(0) = 1; here the gain absorbs the slope instead, so that
`gain("sigmoid", ...)` is the number to put on the weights of a network that uses the plain sigmoid.
To compare with a gain in the paper's normalisation, multiply by the slope at 0: `gain * f.derivative(0.0)`.
"""

from gradwalk.activations.families import BUILT_IN
from gradwalk.activations.functions import Activation, Array, Function, Indices
from gradwalk.activations.lookup import (
    FAMILIES,
    activation,
    adopt,
    identity,
    in_framework,
    is_built_in,
    names,
    register,
    registered,
)
from gradwalk.activations.records import Counterpart, Family

__all__ = [
    "BUILT_IN",
    "FAMILIES",
    "Activation",
    "Array",
    "Counterpart",
    "Family",
    "Function",
    "Indices",
    "activation",
    "adopt",
    "identity",
    "in_framework",
    "is_built_in",
    "names",
    "register",
    "registered",
]

"""gradwalk: initial weights that keep gradients alive in very deep networks.

As the gradient is propagated back through a network, the logarithm of its norm does a random walk over the layers.
`gain` returns the weight scale at which the walk is unbiased, `step` its drift and variance per layer, and `simulate`
samples of it.
"""

from gradwalk.activations import Activation, activation, register
from gradwalk.gains import (
    GainDescription,
    GainEstimate,
    UnsteadyWarning,
    describe_gain,
    gain,
    max_depth,
    min_width,
    solve_gain,
)
from gradwalk.simulation import Walks, simulate
from gradwalk.theory import Step, chi, elasticity, fixed_point, kind, q_map, step

__version__ = "0.1.0"

__all__ = [
    "Activation",
    "GainDescription",
    "GainEstimate",
    "Step",
    "UnsteadyWarning",
    "Walks",
    "activation",
    "chi",
    "describe_gain",
    "elasticity",
    "fixed_point",
    "gain",
    "kind",
    "max_depth",
    "min_width",
    "q_map",
    "register",
    "simulate",
    "solve_gain",
    "step",
]

"""gradwalk: weights at whose scale the gradient of a very deep network neither vanishes nor explodes.

When the gradient is propagated back, the log of its norm does a random walk over the layers. `gain` gives the weight
scale that makes the walk unbiased, `step` its drift and variance, `simulate` samples of it.
"""

from gradwalk.activations import Activation, activation, register
from gradwalk.gains import GainEstimate, UnsteadyWarning, gain, max_depth, min_width, solve_gain
from gradwalk.simulation import Walks, simulate
from gradwalk.theory import Step, chi, elasticity, fixed_point, kind, q_map, step

__version__ = "0.1.0"

__all__ = [
    "Activation",
    "GainEstimate",
    "Step",
    "UnsteadyWarning",
    "Walks",
    "activation",
    "chi",
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

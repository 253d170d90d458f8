"""gradwalk: initial weights that keep gradients alive in very deep networks.

As the gradient is propagated back through a network, the logarithm of its norm does a random walk over the layers.
`gain` returns the weight scale at which the walk is unbiased, `step` its drift and variance per layer, and `simulate`
samples of it.
"""

from typing import TYPE_CHECKING

from gradwalk.activations import Activation, activation, register
from gradwalk.blocks import Block, chain, dense, dropout, norm, residual
from gradwalk.branches import BranchScale, branch_scale
from gradwalk.gains import (
    Directions,
    GainDescription,
    GainEstimate,
    UnsteadyWarning,
    describe_gain,
    directions,
    gain,
    max_depth,
    min_width,
    solve_gain,
)
from gradwalk.lazy import lazily
from gradwalk.remedies import Advice, Remedy, advise, leak_for
from gradwalk.simulation import Walks, simulate
from gradwalk.theory import (
    Step,
    chi,
    correlation_fixed_point,
    correlation_map,
    correlation_slope,
    elasticity,
    fixed_point,
    kind,
    q_map,
    step,
)

if TYPE_CHECKING:
    from gradwalk.reproduction import Reproduction, reproduce
else:  # they need the packages of gradwalk[experiments]
    __getattr__ = lazily("gradwalk", {"reproduction": ("Reproduction", "reproduce")})

__version__ = "0.2.0"

__all__ = [
    "Activation",
    "Advice",
    "Block",
    "BranchScale",
    "Directions",
    "GainDescription",
    "GainEstimate",
    "Remedy",
    "Reproduction",
    "Step",
    "UnsteadyWarning",
    "Walks",
    "activation",
    "advise",
    "branch_scale",
    "chain",
    "chi",
    "correlation_fixed_point",
    "correlation_map",
    "correlation_slope",
    "dense",
    "describe_gain",
    "directions",
    "dropout",
    "elasticity",
    "fixed_point",
    "gain",
    "kind",
    "leak_for",
    "max_depth",
    "min_width",
    "norm",
    "q_map",
    "register",
    "reproduce",
    "residual",
    "simulate",
    "solve_gain",
    "step",
]

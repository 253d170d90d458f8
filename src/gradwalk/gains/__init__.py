"""The unbiased gain, and the depth and width that go with a given spread of the walk.

Where the step does not depend on the variance of the signal, theory gives the gain. Elsewhere the gain depends on
depth, because that variance settles slowly: it follows from an expansion in 1 / width, from tables, or from the exact
sampler.
"""

from gradwalk.gains.describe import GainDescription, describe_gain, gain
from gradwalk.gains.directions import Directions, Passage, backward_directions, default_networks, directions
from gradwalk.gains.estimate import GainEstimate
from gradwalk.gains.layer import layer_gain
from gradwalk.gains.reach import SERVICEABLE, UnsteadyWarning, max_depth, min_width, unsteady_message
from gradwalk.gains.solve import solve_gain

__all__ = [
    "SERVICEABLE",
    "Directions",
    "GainDescription",
    "GainEstimate",
    "Passage",
    "UnsteadyWarning",
    "backward_directions",
    "default_networks",
    "describe_gain",
    "directions",
    "gain",
    "layer_gain",
    "max_depth",
    "min_width",
    "solve_gain",
    "unsteady_message",
]

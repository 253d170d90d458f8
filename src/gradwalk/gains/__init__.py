"""The unbiased gain, and the depth and width that go with a given spread of the walk.

Where the step does not depend on the variance of the signal, theory gives the gain. Elsewhere the gain depends on
depth, because that variance settles slowly, and it is solved for with the exact sampler.
"""

from gradwalk.gains.describe import GainDescription, describe_gain, gain
from gradwalk.gains.directions import Directions, backward_directions, default_networks, directions
from gradwalk.gains.reach import SERVICEABLE, UnsteadyWarning, max_depth, min_width, unsteady_message
from gradwalk.gains.solve import GainEstimate, solve_gain

__all__ = [
    "SERVICEABLE",
    "Directions",
    "GainDescription",
    "GainEstimate",
    "UnsteadyWarning",
    "backward_directions",
    "default_networks",
    "describe_gain",
    "directions",
    "gain",
    "max_depth",
    "min_width",
    "solve_gain",
    "unsteady_message",
]

"""The gain of one layer of a model, whatever its width: what initialising models rests on."""

from gradwalk.activations import Activation
from gradwalk.checks import Weights
from gradwalk.gains.estimate import GainEstimate
from gradwalk.gains.sampled import NoGainError
from gradwalk.gains.solve import solve_gain

_SPREAD = 10.0  # of the final log-norm, from which on the mean is that of a few networks


def layer_gain(
    activation: Activation,
    fan_in: int,
    depth: int,
    weights: Weights,
    dropout: float = 0.0,
    walks: int | None = None,
) -> GainEstimate:
    """Return the gain of a layer that reads the activation in a network of that depth, see `solve_gain`.

    Through layers of a few units of tanh and the like, a code between encoder and decoder for example, no gain makes a
    long walk unbiased, or one at which most gradients explode while the mean is that of a few that vanish. Then it is
    the gain of a walk over half as many layers, or a quarter, and so on: over one layer there is always one.
    """
    while True:
        try:
            estimate = solve_gain(activation, fan_in, depth, weights=weights, dropout=dropout, walks=walks)
        except NoGainError:
            if depth == 1:
                raise
        else:
            if depth == 1 or estimate.spread < _SPREAD or estimate.kind != "steady":
                return estimate
        depth //= 2

"""Learning rates exponential in depth, from lambda_in at the input to lambda_out at the output (eq. 19 to 22)."""

import math

import numpy as np

from gradwalk import checks
from gradwalk.activations import Array

RATE_RANGE = (1e-100, 1e100)  # outside it, the formulas leave double precision


def depth_rates(depth: int, rate_in: float, rate_out: float, deepest: int | None = None) -> Array:
    """Return the learning rate of each layer, input first.

    tau = (D_max - 1) / (ln lambda_out - ln lambda_in), alpha = exp(ln lambda_in + D_max / tau),
    gamma_d = alpha exp(-(D_max - d + 1) / tau) and lambda_{D-d} = gamma_{D_max-d} (eq. 19 to 22), where D_max is
    `deepest`, the greatest depth of all networks that are compared (default: that of this network). The last layer
    always has `rate_out`; the first has gamma_{D_max-D+1} (not lambda_{D_max-D} as printed: erratum E5), which is
    `rate_in` for the deepest network. Equal rates are constant over depth.

    >>> depth_rates(3, 1e-4, 1e-2)
    array([0.0001, 0.001 , 0.01  ])
    """
    depth = checks.whole("depth_rates", "depth", depth, least=2)
    rate_in = checks.positive("depth_rates", "rate_in", rate_in, *RATE_RANGE)
    rate_out = checks.positive("depth_rates", "rate_out", rate_out, *RATE_RANGE)
    most = depth if deepest is None else checks.whole("depth_rates", "deepest", deepest, least=depth)
    slope = (math.log(rate_out) - math.log(rate_in)) / (most - 1)  # 1 / tau, eq. 19: 0 for equal rates
    alpha = math.exp(math.log(rate_in) + most * slope)  # eq. 20
    layers = np.arange(most - depth + 1, most + 1)  # d of gamma_d, eq. 22
    rates: Array = alpha * np.exp(-(most - layers + 1) * slope)  # eq. 21
    return rates

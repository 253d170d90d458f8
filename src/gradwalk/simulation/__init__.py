"""Samples of the walk: `exact` draws no matrix, `neutral` no vector either; `dense` is the literal network."""

from gradwalk.simulation.jacobians import jacobian_singular_values, participation_ratio
from gradwalk.simulation.pairs import PairKind
from gradwalk.simulation.participation import sample_participation
from gradwalk.simulation.samplers import LEAST_UNITS, Method, least_units
from gradwalk.simulation.tracks import Pair
from gradwalk.simulation.walks import Walks, simulate

__all__ = [
    "LEAST_UNITS",
    "Method",
    "Pair",
    "PairKind",
    "Walks",
    "jacobian_singular_values",
    "least_units",
    "participation_ratio",
    "sample_participation",
    "simulate",
]

"""What is known of the walk without sampling it: closed forms and quadrature."""

from gradwalk.theory.angles import (
    correlation_fixed_point,
    correlation_map,
    correlation_slope,
    nonlinearity,
    sine_drift,
    slope_variance,
    wide_directions,
)
from gradwalk.theory.meanfield import Kind, chi, elasticity, fixed_point, kind, q_map
from gradwalk.theory.steps import Step, step
from gradwalk.theory.walks import Band, predicted_walk

__all__ = [
    "Band",
    "Kind",
    "Step",
    "chi",
    "correlation_fixed_point",
    "correlation_map",
    "correlation_slope",
    "elasticity",
    "fixed_point",
    "kind",
    "nonlinearity",
    "predicted_walk",
    "q_map",
    "sine_drift",
    "slope_variance",
    "step",
    "wide_directions",
]

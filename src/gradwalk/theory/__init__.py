"""What is known of the walk without sampling it: closed forms and quadrature."""

from gradwalk.theory.meanfield import Kind, chi, elasticity, fixed_point, kind, q_map
from gradwalk.theory.steps import Step, step
from gradwalk.theory.walks import Band, predicted_walk

__all__ = ["Band", "Kind", "Step", "chi", "elasticity", "fixed_point", "kind", "predicted_walk", "q_map", "step"]

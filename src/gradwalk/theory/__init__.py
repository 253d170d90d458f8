"""What can be said of the walk without sampling it: closed forms and quadrature."""

from gradwalk.theory.meanfield import chi, elasticity, fixed_point, kind, q_map
from gradwalk.theory.steps import Step, step

__all__ = ["Step", "chi", "elasticity", "fixed_point", "kind", "q_map", "step"]

"""The plan of a network whose dataflow is known, for frameworks in which only chains are drawn: Keras and Flax."""

from gradwalk.chains.choices import Choice, Given, GivenActivations, Selection
from gradwalk.chains.draft import Draft, WeightLayer
from gradwalk.chains.graph import Dataflow, Node, Op
from gradwalk.chains.kernels import Axes

__all__ = ["Axes", "Choice", "Dataflow", "Draft", "Given", "GivenActivations", "Node", "Op", "Selection", "WeightLayer"]

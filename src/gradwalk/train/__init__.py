"""Training: a run by all that determines its result, the paper's learning rates, stacks of runs, checkpoints."""

from gradwalk.train.checkpoint import Epoch, State
from gradwalk.train.loop import Watcher, train
from gradwalk.train.part import Outcome
from gradwalk.train.rates import depth_rates
from gradwalk.train.run import Architecture, Run, checked_run

__all__ = ["Architecture", "Epoch", "Outcome", "Run", "State", "Watcher", "checked_run", "depth_rates", "train"]

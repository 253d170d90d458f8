"""Training: runs and what determines their results, learning rates over depth, stacks of runs, checkpoints."""

from typing import TYPE_CHECKING

from gradwalk.lazy import lazily
from gradwalk.train.rates import depth_rates
from gradwalk.train.run import Architecture, Run, checked_run
from gradwalk.train.state import Epoch, Outcome, State
from gradwalk.train.watcher import DamageWarning, Watcher

if TYPE_CHECKING:
    from gradwalk.train.loop import train
else:  # with torch
    __getattr__ = lazily("gradwalk.train", {"loop": ["train"]})

__all__ = [
    "Architecture",
    "DamageWarning",
    "Epoch",
    "Outcome",
    "Run",
    "State",
    "Watcher",
    "checked_run",
    "depth_rates",
    "train",
]

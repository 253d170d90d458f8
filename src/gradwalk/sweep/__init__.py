"""Sweeps: a spec spans a grid of runs, an engine trains them in stacks, a store keeps what came out."""

from gradwalk.sweep.record import Standing
from gradwalk.sweep.session import SweepSummary, run_sweep
from gradwalk.sweep.spec import Spec
from gradwalk.sweep.store import Result, Store

__all__ = ["Result", "Spec", "Standing", "Store", "SweepSummary", "run_sweep"]

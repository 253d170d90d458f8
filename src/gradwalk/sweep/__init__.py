"""Sweeps: a spec spans a grid of runs, an engine trains them in stacks, a store holds their results."""

from typing import TYPE_CHECKING

from gradwalk.lazy import lazily
from gradwalk.sweep.entry import Ending, Entry
from gradwalk.sweep.plan import Plan, plan
from gradwalk.sweep.plot import plot
from gradwalk.sweep.spec import Spec
from gradwalk.sweep.stacks import Job
from gradwalk.sweep.status import SweepStatus, status
from gradwalk.sweep.store import Result, Session, Store, Unreadable, UnreadableWarning

if TYPE_CHECKING:
    from gradwalk.sweep.engine import Engine, EngineOptions, Listener, train_job
    from gradwalk.sweep.engines import ENGINES
    from gradwalk.sweep.record import SweepProgress
    from gradwalk.sweep.session import SweepSummary, run_sweep
else:  # with torch
    __getattr__ = lazily(
        "gradwalk.sweep",
        {
            "engine": ("Engine", "EngineOptions", "Listener", "train_job"),
            "engines": ("ENGINES",),
            "record": ("SweepProgress",),
            "session": ("SweepSummary", "run_sweep"),
        },
    )

__all__ = [
    "ENGINES",
    "Ending",
    "Engine",
    "EngineOptions",
    "Entry",
    "Job",
    "Listener",
    "Plan",
    "Result",
    "Session",
    "Spec",
    "Store",
    "SweepProgress",
    "SweepStatus",
    "SweepSummary",
    "Unreadable",
    "UnreadableWarning",
    "plan",
    "plot",
    "run_sweep",
    "status",
    "train_job",
]

"""The registry of engines, by the names that `run_sweep(engine=...)` takes."""

from gradwalk.registry import Registry
from gradwalk.sweep.engine import Engine
from gradwalk.sweep.local_engine import LocalEngine
from gradwalk.sweep.ray_engine import RayEngine

ENGINES: Registry[type[Engine]] = Registry("engine", [LocalEngine, RayEngine])

"""Random walk initialisation for Keras 3, on any of its backends."""

try:
    import keras as _keras  # noqa: F401
except ModuleNotFoundError as error:
    missing = (error.name or "").partition(".")[0]
    raise ModuleNotFoundError(
        f"gradwalk.keras needs Keras and a backend for it, and {missing} is missing: pip install 'gradwalk[keras]' and "
        "jax, torch or tensorflow, and name that one in KERAS_BACKEND",
        name=missing,
    ) from error

from gradwalk.keras.initialiser import RandomWalk
from gradwalk.keras.leak import Leak
from gradwalk.keras.models import init, plan

__all__ = ["Leak", "RandomWalk", "init", "plan"]

"""Random walk initialisation for JAX: an initialiser like those of `jax.nn.initializers`, and whole Flax models."""

try:
    import jax as _jax  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("gradwalk.jax needs JAX: pip install 'gradwalk[jax]'", name="jax") from error

from typing import TYPE_CHECKING, Any

from gradwalk.activations.leaks import Leak
from gradwalk.jax.initialiser import random_walk

if TYPE_CHECKING:
    from gradwalk.jax.models import init, init_variables, plan

__all__ = ["Leak", "init", "init_variables", "plan", "random_walk"]


def __getattr__(name: str) -> Any:
    """Import what needs Flax when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'gradwalk.jax' has no attribute {name!r}")
    try:
        from gradwalk.jax import models
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"gradwalk.jax.{name} needs Flax: pip install flax", name="flax") from error
    return getattr(models, name)

"""Random walk initialisation for JAX, with the interface of `jax.nn.initializers`."""

try:
    import jax as _jax  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("gradwalk.jax needs JAX: pip install 'gradwalk[jax]'", name="jax") from error

from gradwalk.jax.initialiser import random_walk

__all__ = ["random_walk"]

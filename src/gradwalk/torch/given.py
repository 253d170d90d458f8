"""The activations that users give for layers that read what cannot be determined."""

from collections.abc import Callable

from gradwalk.activations import Activation, activation
from gradwalk.chains.choices import Activated, GivenActivations
from gradwalk.chains.choices import Given as Given  # what the functions of gradwalk.torch take


def given_for(given: Given, where: str) -> Callable[[str], Activation | None]:
    """Return the function from the name of a layer to the activation that the user gives for it.

    >>> given_for({"decoder.*": "relu"}, "init_")("decoder.0").name
    'relu'
    """
    return GivenActivations(given, _lookup, where).of


def _lookup(given: Activated) -> Activation:
    if not isinstance(given, str | Activation):
        raise TypeError(f"activation must be a name or an Activation, got {given!r}; see gradwalk.register")
    return activation(given)

"""Names that the shell completes: `gradwalk --install-completion` installs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def names_of(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return a function for Typer's `autocompletion` that completes these names.

    >>> names_of(lambda: ["relu", "relu6", "tanh"])("re")
    ['relu', 'relu6']
    """

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def activation_names() -> Iterable[str]:
    """Return the names of the activations."""
    from gradwalk import activations

    return activations.names()


def data_names() -> Iterable[str]:
    """Return the names of the data sets."""
    from gradwalk.data import DATASETS

    return DATASETS.names


def figure_names() -> Iterable[str]:
    """Return the names of the figures, and "all"."""
    from gradwalk.figures import FIGURES

    return (*FIGURES.names, "all")


def scale_names() -> Iterable[str]:
    """Return the names of the scales."""
    from gradwalk.figures import SCALES

    return SCALES

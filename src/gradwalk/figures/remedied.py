"""Activations with a remedy in the runs of a figure: which activation they come from, and what was changed.

A leak makes f(a) to s a + (1 - s) f(a), written gelu@0.8, and relu to leaky_relu(s); a scale makes it to f(s a) / s,
written gelu*100.
"""

from __future__ import annotations


def family(activation: str) -> str:
    """Return the activation without its leak or scale.

    >>> family("leaky_relu(0.9)"), family("gelu@0.8"), family("gelu*100"), family("tanh")
    ('relu', 'gelu', 'gelu', 'tanh')
    """
    return "relu" if activation.startswith("leaky_relu(") else activation.split("@")[0].split("*")[0]


def remedy(activation: str) -> str:
    """Return what was done to the activation, nothing if it is as it is.

    >>> remedy("leaky_relu(0.9)"), remedy("gelu@0.8"), remedy("gelu*100"), remedy("tanh")
    ('leak', 'leak', 'f(100 a)/100', '')
    """
    if activation == family(activation):
        return ""
    _, _, scale = activation.partition("*")
    return f"f({scale} a)/{scale}" if scale else "leak"

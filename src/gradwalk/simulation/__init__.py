"""Samples of the walk: `exact` draws no matrix, `neutral` no vector either; `dense` is the literal network."""

from gradwalk.simulation.walks import Method, Walks, simulate

__all__ = ["Method", "Walks", "simulate"]

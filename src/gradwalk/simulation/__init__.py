"""Samples of the walk: `exact`, which never draws a matrix, and `dense`, the literal network, as the reference."""

from gradwalk.simulation.walks import Walks, simulate

__all__ = ["Walks", "simulate"]

"""Samples of the walk: `exact` draws no matrix and costs O(width) per layer; `dense` is the literal network."""

from gradwalk.simulation.walks import Method, Walks, simulate

__all__ = ["Method", "Walks", "simulate"]

"""A sweep of four small runs, and what its results hold that does not depend on a clock."""

from dataclasses import replace

SMALL = """
data = "digits"
examples = 100
params = 2e3
depth = [3, 4]
gain = [1.0, 1.2]
rate_in = 1e-3
epochs = 2
"""


def untimed(epochs):
    """Epochs without the seconds they took."""
    return tuple(replace(epoch, seconds=0.0) for epoch in epochs)


def numbers(results):
    """Status, divergence and epochs of each run, by its identity, without anything that a clock determines."""
    return {result.identity: (result.status, result.diverged, untimed(result.epochs)) for result in results}

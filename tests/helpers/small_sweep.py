"""A sweep of four small runs, one of five, and what its results hold that does not depend on a clock."""

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

# A fifth run, which diverges in its second epoch.
WITH_DIVERGED = (
    SMALL
    + """
[[runs]]

[[runs]]
depth = 3
gain = 1.0
rate_in = 1e38
rate_out = 1e38
clip = "none"
"""
)


def untimed(epochs):
    """Epochs without the seconds they took."""
    return tuple(replace(epoch, seconds=0.0) for epoch in epochs)


def numbers(results):
    """Status, divergence and epochs of each run, by its identity, without anything that a clock determines."""
    return {result.identity: (result.status, result.diverged, untimed(result.epochs)) for result in results}

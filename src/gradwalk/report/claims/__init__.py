"""The claims of the paper, C1 to C12, and further ones: each is a record with the function that judges it.

    CLAIMS.register(Claim("X1", "My walks end below 0.", "Holds: ...", figures=("mine",), judge=judge))

adds a claim of your own to the page, below those of the paper.
"""

from gradwalk.registry import Registry
from gradwalk.report.claims import (
    depths,
    gains,
    initialisers,
    learning,
    optimizers,
    schedule,
    thousand,
    trained_gains,
    walks,
)
from gradwalk.report.finding import Claim, Finding, Tables

CLAIMS: Registry[Claim] = Registry(
    "claim",
    [
        walks.C1,
        walks.C2,
        gains.C3,
        gains.C4,
        gains.C5,
        trained_gains.C6,
        depths.C7,
        depths.C8,
        thousand.C9,
        depths.C10,
        schedule.C11,
        trained_gains.C12,
        initialisers.I1,
        initialisers.I2,
        optimizers.O1,
        learning.D1,
    ],
)


def findings(tables: Tables) -> dict[str, Finding]:
    """Return the finding on each claim by its name; claims that are not in the paper only if their figures were run."""
    return {claim.name: claim.finding(tables) for claim in CLAIMS if claim.in_paper or set(claim.figures) & set(tables)}


__all__ = ["CLAIMS", "findings"]

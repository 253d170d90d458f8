"""What came out of checking a claim: a verdict, and the numbers it rests on in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from gradwalk.figures.table import Table

Verdict = Literal["holds", "holds in part", "does not hold", "not run at this scale"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
HOLDS, IN_PART, FAILS, NOT_RUN = VERDICTS

Tables = Mapping[str, Table]  # by the figure's name; a figure that was not run is missing


@dataclass(frozen=True)
class Finding:
    """A verdict on a claim, and what came out here."""

    verdict: Verdict
    came_out: str


def graded(parts: Sequence[bool]) -> Verdict:
    """Return the verdict on a claim of several parts: all of them hold, some, or none.

    >>> graded([True, True]), graded([True, False]), graded([False, False])
    ('holds', 'holds in part', 'does not hold')
    """
    if all(parts):
        return HOLDS
    return IN_PART if any(parts) else FAILS


def judged(said: str, lacking: str | None, verdict: Callable[[], Verdict]) -> Finding:
    """Return the verdict, or that it cannot be given, and why."""
    if lacking:
        return Finding(NOT_RUN, f"{said} ({lacking}).")
    return Finding(verdict(), f"{said}.")


def not_run(*figures: str) -> Finding:
    """Return the finding on a claim whose figures are not there.

    >>> not_run("fig4c").came_out, not_run("fig1", "fig2").came_out
    ('Figure 4C was not run.', 'Figure 1, Figure 2: none was run.')
    """
    names = ", ".join(map(title, figures))
    return Finding(NOT_RUN, f"{names} was not run." if len(figures) == 1 else f"{names}: none was run.")


def title(figure: str) -> str:
    """Return a figure's name as the paper writes it; one of our own has a name without a number.

    >>> title("fig1"), title("fig4a"), title("initialisers")
    ('Figure 1', 'Figure 4A', 'Initialisers')
    """
    return f"Figure {figure.removeprefix('fig').upper()}" if figure.startswith("fig") else figure.capitalize()

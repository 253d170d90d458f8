"""What a claim comes to: a verdict, and the numbers behind it in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from gradwalk.figures import Table

Verdict = Literal["holds", "holds in part", "does not hold", "undecided", "not run"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
HOLDS, IN_PART, FAILS, UNDECIDED, NOT_RUN = VERDICTS

Tables = Mapping[str, Table]  # by figure; a figure that was not run is missing


@dataclass(frozen=True)
class Finding:
    """A verdict on a claim, and what came out here."""

    verdict: Verdict
    came_out: str

    @property
    def decided(self) -> bool:
        """Whether the claim holds, holds in part, or does not hold."""
        return self.verdict not in (UNDECIDED, NOT_RUN)


@dataclass(frozen=True)
class Claim:
    """A claim that tables of figures can decide.

    name: a short label such as "C1". words: the claim itself. criterion: when it holds, holds in part, or does not.
    figures: the names of the figures that `judge` reads. errata: the misprints of the paper that bear on it.
    in_paper: whether the paper makes this claim.
    """

    name: str
    words: str
    criterion: str
    figures: tuple[str, ...]
    judge: Callable[[Tables], Finding]
    errata: tuple[str, ...] = ()
    in_paper: bool = False

    def finding(self, tables: Tables) -> Finding:
        """Return the finding from these tables; a claim without any of its figures was not run."""
        return self.judge(tables) if set(self.figures) & set(tables) else not_run(*self.figures)


@dataclass(frozen=True)
class Part:
    """A part of a claim: whether it holds, or None and why it is open."""

    holds: bool | None
    why_open: str = ""


def graded(parts: Sequence[bool | None]) -> Verdict:
    """Return the verdict on a claim of several parts: all of them hold, some, or none; None is a part that is open.

    >>> graded([True, True]), graded([True, False]), graded([False, False])
    ('holds', 'holds in part', 'does not hold')
    >>> graded([True, None]), graded([True, None, False])
    ('undecided', 'holds in part')
    """
    if True in parts and False in parts:
        return IN_PART
    if None in parts:
        return UNDECIDED
    return HOLDS if all(parts) else FAILS


def judged(came_out: str, obstacle: str | None, verdict: Callable[[], Verdict]) -> Finding:
    """Return the finding, undecided if there is an obstacle to a verdict.

    >>> judged("mean 0.01", "only 3 epochs", lambda: HOLDS)
    Finding(verdict='undecided', came_out='mean 0.01 (only 3 epochs).')
    """
    if obstacle:
        return Finding(UNDECIDED, f"{came_out} ({obstacle}).")
    return Finding(verdict(), f"{came_out}.")


def weighed(came_out: str, obstacle: str | None, parts: Callable[[], Sequence[Part]]) -> Finding:
    """Return the finding on a claim of several parts, with the reasons for those that are open.

    >>> weighed("11 and 22 mistakes", None, lambda: [Part(None, "too close to call")])
    Finding(verdict='undecided', came_out='11 and 22 mistakes (too close to call).')
    """
    if obstacle:
        return Finding(UNDECIDED, f"{came_out} ({obstacle}).")
    found = parts()
    reasons = "; ".join(dict.fromkeys(part.why_open for part in found if part.holds is None))
    return Finding(graded([part.holds for part in found]), f"{came_out} ({reasons})." if reasons else f"{came_out}.")


def not_run(*figures: str) -> Finding:
    """Return the finding on a claim whose figures are missing.

    >>> not_run("fig4c").came_out, not_run("fig1", "fig2").came_out
    ('Figure 4C was not run.', 'Figure 1, Figure 2: none was run.')
    """
    titles = ", ".join(map(figure_title, figures))
    return Finding(NOT_RUN, f"{titles} was not run." if len(figures) == 1 else f"{titles}: none was run.")


def figure_title(name: str) -> str:
    """Return the title of a figure."""
    from gradwalk import figures

    return figures.FIGURES[name].title

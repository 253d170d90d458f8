"""How a figure's table came about, in words for its `made`: scale, date, seconds, machine, versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import gradwalk
from gradwalk.figures.table import Table
from gradwalk.versions import machine, versions

if TYPE_CHECKING:
    from gradwalk.sweep import Result, Session, Store


def made_now(seconds: float) -> dict[str, str]:
    """Return it for a table that was just simulated here, in so many seconds."""
    return _words(datetime.now(UTC).timestamp(), seconds, machine(), versions())


def made_by_sweep(found: Sequence[Result], store: Store, scale: str, note: str | None) -> dict[str, str]:
    """Return it for the runs of a sweep, from what its store knows: the same however often the figure is drawn.

    The time is that of the sessions in which a run ended; one that was killed has no end, and is not counted.
    """
    ends = [each.ended for each in found if each.ended is not None]
    told: dict[str, str] = {"scale": scale} | ({"note": note} if note else {})
    trained = [session for session in store.sessions() if _trained(session, ends)]
    if not trained:
        return told
    seconds = sum(session.seconds for session in trained)
    latest = trained[-1]
    return told | _words(max(ends), seconds, latest.machine, latest.versions)


def is_current(table: Table, seed: int) -> bool:
    """Return whether a table was made with that seed by this version of gradwalk."""
    told = table.made.get("versions", "").split(", ")
    return f"gradwalk {gradwalk.__version__}" in told and table.facts.get("seed") == seed


def _trained(session: Session, ends: Sequence[float]) -> bool:
    return session.ended is not None and any(session.began <= end <= session.ended for end in ends)


def _words(when: float, seconds: float, where: Mapping[str, Any], which: Mapping[str, str]) -> dict[str, str]:
    date = datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%d %H:%M UTC")
    place = f"{where['processor']}, {where['cores']} cores, {where['system']}"
    return {
        "date": date,
        "seconds": f"{seconds:.6g}",
        "machine": place,
        "versions": ", ".join(f"{name} {number}" for name, number in which.items()),
    }

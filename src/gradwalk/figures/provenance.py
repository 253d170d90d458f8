"""How a figure's table was made, in words for `Table.made`: scale, date, seconds, machine, versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import gradwalk
from gradwalk.figures.table import Table
from gradwalk.versions import machine, versions
from gradwalk.words import duration

if TYPE_CHECKING:
    from gradwalk.sweep import Result, Session, Store


def simulated_now(seconds: float) -> dict[str, str]:
    """Return the provenance of a table that this process simulated in that many seconds."""
    return _words(datetime.now(UTC).timestamp(), seconds, machine(), versions())


def trained_by_sweep(results: Sequence[Result], store: Store, scale: str, note: str | None) -> dict[str, str]:
    """Return the provenance of the runs of a sweep, from its store: the same however often the figure is drawn.

    The time is that of the sessions in which a run ended. A session that was killed has no end and is not counted.
    """
    ends = [result.ended for result in results if result.ended is not None]
    made: dict[str, str] = {"scale": scale} | ({"note": note} if note else {})
    sessions = [session for session in store.sessions() if _contains(session, ends)]
    if not sessions:
        return made
    seconds, latest = sum(session.seconds for session in sessions), sessions[-1]
    return made | _words(max(ends), seconds, latest.machine, latest.versions)


def is_current(table: Table, seed: int) -> bool:
    """Return whether a table was made with that seed by this version of gradwalk."""
    made_with = table.made.get("versions", "").split(", ")
    return f"gradwalk {gradwalk.__version__}" in made_with and table.facts.get("seed") == seed


def lines(table: Table) -> list[tuple[str, str]]:
    """Return when a table was made, how long that took, and with what, as far as it is known."""
    made = table.made
    known = {name: made[name] for name in ("date", "seconds", "machine", "versions") if name in made}
    return [("time", duration(float(text))) if name == "seconds" else (name, text) for name, text in known.items()]


def _contains(session: Session, ends: Sequence[float]) -> bool:
    return session.ended is not None and any(session.began <= end <= session.ended for end in ends)


def _words(when: float, seconds: float, where: Mapping[str, Any], which: Mapping[str, str]) -> dict[str, str]:
    return {
        "date": datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seconds": f"{seconds:.6g}",
        "machine": f"{where['processor']}, {where['cores']} cores, {where['system']}",
        "versions": ", ".join(f"{name} {number}" for name, number in which.items()),
    }

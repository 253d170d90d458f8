"""Progress is shown once, on stderr: as a bar on a terminal, and elsewhere only where lines are asked for."""

import os
import subprocess
import sys
import threading
import time

import pytest

from gradwalk.progress import progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set."""
    now = {"seconds": 1000.0}
    monkeypatch.setattr(time, "monotonic", lambda: now["seconds"])
    return now


def test_lines_come_at_the_first_report_and_then_once_per_minute(capsys, clock):
    with progress("sweep", 10, lines=True) as job:
        for _ in range(10):
            job.advance()
            clock["seconds"] += 20
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4  # after 0, 60, 120 and 180 seconds
    assert lines[1] == "sweep: 40 %, 1 min 30 s left"


def test_a_text_of_the_caller_replaces_the_default_one(capsys, clock):
    with progress("fig3", lines=True) as job:
        job.update(completed=3, total=8, text="3 of 8 runs, 1 diverged")
    assert capsys.readouterr().err == "fig3: 3 of 8 runs, 1 diverged\n"


def test_nothing_is_printed_in_a_pipe_unless_lines_are_asked_for(capsys, clock):
    with progress("walks", 2) as job:
        job.advance()
        clock["seconds"] += 1000
        job.advance()
    assert capsys.readouterr().err == ""


def test_only_the_outermost_job_is_shown(capsys, clock):
    with progress("outer", 2, lines=True) as outer, progress("inner", 2, lines=True) as inner:
        inner.advance()
        outer.advance()
    with progress("next", 2, lines=True) as job:
        job.advance()
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines()] == ["outer", "next"]


def test_a_job_that_fails_leaves_the_display_free_for_the_next(capsys):
    with pytest.raises(RuntimeError), progress("first", 1, lines=True):
        raise RuntimeError
    with progress("second", 1, lines=True) as job:
        job.advance()
    assert capsys.readouterr().err == "second: 100 %\n"


def test_advances_from_several_threads_all_count():
    with progress("walks", 40_000) as job:
        threads = [threading.Thread(target=lambda: [job.advance() for _ in range(10_000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert job.completed == 40_000


def shown_on_a_terminal(script):
    """Return what a Python script prints where stdout and stderr are a terminal."""
    screen, terminal = os.openpty()
    child = subprocess.Popen([sys.executable, "-c", script], stderr=terminal, stdout=terminal)
    os.close(terminal)
    shown = b""
    while True:
        try:
            part = os.read(screen, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(screen)
    assert child.wait() == 0
    return shown.decode()


LOOP = """
import time
from gradwalk.progress import progress
with progress("counting", 20) as job:
    for _ in range(20):
        time.sleep({pause})
        job.advance()
"""


def test_a_bar_appears_on_a_terminal_and_is_removed():
    shown = shown_on_a_terminal(LOOP.format(pause=0.08))
    assert "counting" in shown
    assert " left" in shown
    assert shown.rstrip().endswith("\x1b[2K")  # the line is erased


def test_a_short_job_shows_no_bar_on_a_terminal():
    assert "counting" not in shown_on_a_terminal(LOOP.format(pause=0.001))

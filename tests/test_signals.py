"""Signals at any moment end a sweep in one line, with everything saved; a terminal that is gone does not end it."""

import os
import signal
import sys
import time

import pytest
from helpers.processes import ended, started, write_at_once
from helpers.small_sweep import SMALL

pytest.importorskip("torch")
pytest.importorskip("pydantic")

from gradwalk.sweep import Store, session, status
from gradwalk.sweep.folder import CHECKPOINTS


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(SMALL)
    return path


def command(spec, *more):
    return ["sweep", spec, "--out", spec.parent / "out", "--threads", "1", *more]


def trains(folder):
    try:
        return status(folder).epochs_done > 0
    except (FileNotFoundError, ValueError):
        return False


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_saves_prints_how_to_resume_and_the_counts_add_up(spec, tmp_path, name):
    log, folder = tmp_path / "log", tmp_path / "out"
    process = started(command(spec, "epochs=100000"), log, write_at_once)
    while process.is_alive() and not trains(folder):
        time.sleep(0.01)
    os.kill(process.pid, getattr(signal, name))
    assert ended(process) == 130
    last = log.read_text().splitlines()[-1]
    assert "0 of 4 runs have ended" in last
    assert last.endswith(f"2 are waiting; resume with: gradwalk sweep {spec} epochs=100000 --out {folder} --threads 1")
    now = status(folder)
    assert (now.writer, now.counts["running"], now.counts["interrupted"], now.counts["waiting"]) == (None, 0, 2, 2)
    assert len(list((folder / CHECKPOINTS).glob("*.safetensors"))) == 2


def interrupt_resolve(number):
    """Send a signal while the data are loaded, before there is a folder."""

    def resolve(*arguments):
        os.kill(os.getpid(), number)
        time.sleep(10)

    session.resolve = resolve


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_before_the_folder_exists_ends_in_one_line(spec, tmp_path, name):
    log = tmp_path / "log"
    process = started(command(spec), log, interrupt_resolve, getattr(signal, name))
    assert ended(process) == 130
    (line,) = log.read_text().splitlines()
    assert line.startswith("gradwalk: interrupted before training began; start again with: gradwalk sweep ")
    assert not (tmp_path / "out").exists()


def interrupt_twice():
    """Send one signal when training begins, and others while what was saved is counted."""
    began, counts = session.Recorder.began, Store.counts

    def first(self, job):
        began(self, job)
        os.kill(os.getpid(), signal.SIGINT)

    def late(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)
        return counts(self)

    session.Recorder.began, Store.counts = first, late


def test_late_second_signals_do_not_hide_how_to_resume(spec, tmp_path):
    log = tmp_path / "log"
    process = started(command(spec), log, interrupt_twice)
    process.join(30)
    lines = [line for line in log.read_text().splitlines() if "of 4 runs\n" not in f"{line}\n"]
    assert (process.exitcode, len(lines)) == (130, 1)
    assert "resume with: gradwalk sweep" in lines[0]


def close_stderr():
    """Be as a program that was started with 2>&-."""
    os.close(2)
    sys.stderr = None


@pytest.mark.parametrize(("log", "before"), [("/dev/full", None), (os.devnull, close_stderr)], ids=["full", "closed"])
def test_a_closed_or_full_stderr_does_not_end_a_sweep(spec, tmp_path, log, before):
    process = started(command(spec), log, before)
    process.join(60)
    assert process.exitcode == 0
    assert status(tmp_path / "out").counts["done"] == 4

"""The store of a sweep: one writer, any number of readers, and errors that leave it unchanged."""

import json
import math
import os
import signal
import socket
import sqlite3
import sys

import pytest
from filelock import FileLock
from helpers.small_sweep import SMALL, WITH_DIVERGED

pytest.importorskip("torch")
pytest.importorskip("pydantic")

from gradwalk.sweep import Spec, Store, engine, lock, run_sweep, schema, status
from gradwalk.sweep import writer as writer_module
from gradwalk.sweep.entry import Ending, resolve
from gradwalk.sweep.folder import STORE
from gradwalk.sweep.writer import Writer
from gradwalk.train import Epoch


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The summary of a sweep of 5 runs, the last of which diverged."""
    return run_sweep(Spec.load(WITH_DIVERGED), tmp_path_factory.mktemp("small"))


def test_the_store_can_be_read_while_it_is_written(tmp_path):
    entries, _ = resolve(Spec.load(SMALL))
    with Writer(tmp_path) as writer, Store(tmp_path) as store:
        writer.enlist(entries)
        writer.epoch_ended(entries[0].identity, Epoch(1, 0.5, 1, math.nan, 2, 0, 0.1))
        writer.flush()
        assert store.results()[0].epochs[0].train_loss == 0.5
        assert math.isnan(store.results()[0].epochs[0].test_loss)
        assert store.writer().pid == os.getpid()
        assert status(tmp_path).writer == store.writer()
    with Store(tmp_path) as store:
        assert store.writer() is None


def test_epochs_are_collected_for_some_seconds_and_written_together(tmp_path, monkeypatch):
    entries, _ = resolve(Spec.load(SMALL))
    with Writer(tmp_path) as writer, Store(tmp_path) as store:
        writer.enlist(entries)
        for number in (1, 2):
            writer.epoch_ended(entries[0].identity, Epoch(number, 0.5, 1, 0.5, 2, 0, 0.1))
        assert not store.results()[0].epochs
        monkeypatch.setattr(writer_module, "_EVERY", 0.0)
        writer.epoch_ended(entries[1].identity, Epoch(1, 0.5, 1, 0.5, 2, 0, 0.1))
        assert [len(result.epochs) for result in store.results()] == [2, 1, 0, 0]


def test_the_writer_knows_the_statuses_that_it_has_written(tmp_path):
    entries, _ = resolve(Spec.load(SMALL))
    ended, failed, begun, waiting = (entry.identity for entry in entries)
    with Writer(tmp_path) as writer, Store(tmp_path) as store:
        writer.enlist(entries)
        writer.began([ended, failed, begun])
        writer.ended([Ending(ended, (), 1, 0.1, "here")])
        writer.failed([failed], "no reason")
        assert writer.statuses() == store.statuses()
        assert writer.statuses() == {ended: "diverged", failed: "failed", begun: "running", waiting: "waiting"}
    with Writer(tmp_path) as writer, Store(tmp_path) as store:
        assert writer.statuses() == store.statuses()
        assert writer.statuses()[begun] == "interrupted"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no os.fork")
def test_a_process_that_was_killed_is_not_running(tmp_path):
    child = os.fork()
    if not child:
        try:
            Writer(tmp_path)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    with Store(tmp_path) as store:
        assert [session.ended for session in store.sessions()] == [None]
        assert store.writer() is None
    Writer(tmp_path).close()
    with Store(tmp_path) as store:
        assert [session.ended is None for session in store.sessions()] == [True, False]


def test_a_process_is_looked_up_if_the_lock_may_not_be_tried(tmp_path, monkeypatch):
    def refuses(*arguments, **options):
        raise PermissionError

    lock.acquire(tmp_path).release()
    monkeypatch.setattr(FileLock, "acquire", refuses)
    here = socket.gethostname()
    assert lock.is_alive(tmp_path, here, os.getpid())
    assert not lock.is_alive(tmp_path, here, 2**22 + 1)  # more than there can be
    assert lock.is_alive(tmp_path, "elsewhere", 1)


def test_a_status_counts_runs_and_epochs_and_names_the_best_run_and_the_errors(small, tmp_path, monkeypatch):
    now = status(small.folder)
    assert (now.runs, now.counts["done"], now.counts["diverged"], now.writer) == (5, 4, 1, None)
    assert (now.epochs_done, now.epochs_total, now.best) == (4 * 2 + 1, 5 * 2, small.best)
    monkeypatch.setattr(engine, "train", lambda *arguments, **options: 1 / 0)
    run_sweep(Spec.load(SMALL), tmp_path)
    assert (status(tmp_path).errors, status(tmp_path).best) == (("ZeroDivisionError: division by zero",), None)


def test_a_second_writer_is_refused_with_the_process_that_holds_the_folder(tmp_path):
    process = rf"process {os.getpid()} on {socket.gethostname()} since 20\d\d-"
    with Writer(tmp_path), pytest.raises(ValueError, match=rf"sweep: {tmp_path} is in use by {process}"):
        Writer(tmp_path)
    Writer(tmp_path).close()


def test_a_folder_that_is_being_created_is_in_use_by_another_process(tmp_path):
    with lock.acquire(tmp_path), pytest.raises(ValueError, match=rf"{tmp_path} is in use by another process; wait"):
        Writer(tmp_path)


def test_a_store_of_another_format_is_refused(small, tmp_path):
    with sqlite3.connect(small.folder / STORE) as source, sqlite3.connect(tmp_path / STORE) as target:
        source.backup(target)
        target.execute("PRAGMA user_version = 7")
    target.close()
    source.close()
    for opened in (Store, Writer):
        with pytest.raises(ValueError, match="has format 7, but this gradwalk reads format 2; use the gradwalk that"):
            opened(tmp_path)


def test_a_store_that_was_emptied_is_not_taken_for_a_new_one(tmp_path):
    (tmp_path / STORE).touch()
    for opened in (Store, Writer):
        with pytest.raises(ValueError, match=rf"sweep: {tmp_path / STORE} is empty and has lost its results; restore"):
            opened(tmp_path)
    assert (tmp_path / STORE).stat().st_size == 0


def test_a_corrupt_store_is_reported_and_not_changed(small, tmp_path):
    copy = tmp_path / STORE
    content = (small.folder / STORE).read_bytes()
    with sqlite3.connect(small.folder / STORE) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'epochs'").fetchone()
    connection.close()
    hidden = (
        content[: 4096 * (page - 1)] + os.urandom(4096) + content[4096 * page :]
    )  # a page that is not read at first
    for corrupt in (hidden, content[:4096] + os.urandom(len(content) - 4096), content[: len(content) // 2]):
        copy.write_bytes(corrupt)
        with pytest.raises(ValueError, match=rf"sweep: {copy} is corrupt \(.*\) and was not changed; restore a copy"):
            run_sweep(Spec.load(SMALL), tmp_path)
        assert copy.read_bytes() == corrupt
    copy.write_bytes(b"not a database" * 100)
    for opened in (Store, Writer):
        with pytest.raises(ValueError, match=r"is corrupt \(file is not a database\) and was not"):
            opened(tmp_path)


def test_a_file_that_is_no_database_is_closed_again(tmp_path, monkeypatch):
    opened, connected = [], schema._connected
    monkeypatch.setattr(schema, "_connected", lambda name: opened.append(connected(name)) or opened[-1])
    (tmp_path / STORE).write_bytes(b"not a database" * 100)
    with pytest.raises(ValueError, match="is corrupt"):
        Store(tmp_path)
    for connection in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
            connection.execute("SELECT 1")
    assert opened


def test_the_database_of_another_program_is_not_changed(tmp_path):
    with sqlite3.connect(tmp_path / STORE) as other:
        other.execute("CREATE TABLE songs (name TEXT)")
    other.close()
    before = (tmp_path / STORE).read_bytes()
    for opened in (Store, Writer):
        with pytest.raises(ValueError, match="was not written by gradwalk; choose another folder"):
            opened(tmp_path)
    assert (tmp_path / STORE).read_bytes() == before


@pytest.mark.skipif(
    sys.platform == "win32" or os.getuid() != 0, reason="needs os.fork, and root to become another user"
)
def test_a_sweep_in_a_read_only_folder_can_be_read(small, tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / STORE).write_bytes((small.folder / STORE).read_bytes())
    for folder in tmp_path.parents:
        if folder.name.startswith(("pytest-", "popen-")):
            folder.chmod(0o755)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setuid(65534)
            os.write(writer, json.dumps(Store(tmp_path).counts()).encode())
        finally:
            os._exit(0)  # a second process must not continue with the tests
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        assert json.loads(answer.read())["done"] == 4
    assert [path.name for path in tmp_path.iterdir()] == [STORE]

"""A sweep trains its runs, the store keeps what came out, and nothing is lost when something is wrong."""

import json
import math
import os
import signal
import sqlite3
from itertools import product

import numpy as np
import pytest
from helpers.small_sweep import SMALL, numbers, untimed

pytest.importorskip("torch")
pytest.importorskip("pydantic")

import torch

from gradwalk.data import load
from gradwalk.nets import load_network
from gradwalk.sweep import Ending, Spec, Store, engine, lock, run_sweep, status
from gradwalk.sweep.entry import resolve
from gradwalk.sweep.folder import CHECKPOINTS, STORE, network_path
from gradwalk.sweep.writer import Writer
from gradwalk.train import Epoch, train


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The folder of a sweep of 5 runs, one of which diverged, and its summary."""
    folder = tmp_path_factory.mktemp("small")
    tables = '[[runs]]\n[[runs]]\ndepth = 3\ngain = 1.0\nrate_in = 1e38\nrate_out = 1e38\nclip = "none"\n'
    return run_sweep(Spec.load(SMALL + tables), folder)


def test_a_sweep_gives_each_run_the_numbers_that_it_has_when_trained_alone(small):
    data = load("digits", examples=100)
    for result in small.results:
        (alone,) = train([result.run], data, threads=1)
        assert (result.diverged, untimed(result.epochs)) == (alone.diverged, untimed(alone.epochs))
    assert [result.status for result in small.results] == ["done"] * 4 + ["diverged"]


def test_a_result_carries_errors_sizes_versions_and_where_it_was_trained(small):
    first, lost = small.results[0], small.results[-1]
    assert first.train_error == first.epochs[-1].train_mistakes / 100
    assert first.test_error == first.epochs[-1].test_mistakes / first.test_examples
    assert first.parameters > 2000
    assert first.versions["torch"]
    assert first.host == os.uname().nodename
    assert math.isnan(lost.train_error)
    assert (lost.diverged, len(lost.epochs)) == (2, 1)
    assert small.best == min(small.results[:4], key=lambda each: (each.train_error, each.last.train_loss))


def test_a_sweep_that_has_ended_trains_nothing_again_and_leaves_no_checkpoints(small, monkeypatch):
    monkeypatch.setattr(engine, "train", None)
    again = run_sweep(Spec.load(SMALL), small.folder)
    assert again.kept == 4
    assert numbers(again.results) == numbers(small.results[:4])
    assert {each.starts for each in again.results} == {1}
    assert not (small.folder / CHECKPOINTS).exists()


def test_two_specs_in_one_folder_share_their_runs(tmp_path, monkeypatch):
    run_sweep(Spec.load(SMALL, ["depth=4"]), tmp_path)
    trained, true_train = [], engine.train
    monkeypatch.setattr(engine, "train", lambda runs, *a, **k: trained.extend(runs) or true_train(runs, *a, **k))
    summary = run_sweep(Spec.load(SMALL, ["gain=[1.2, 1.3]"]), tmp_path)
    assert [(run.depth, run.gain) for run in trained] == [(3, 1.2), (3, 1.3), (4, 1.3)]
    assert [(each.run.depth, each.run.gain) for each in summary.results] == list(product((3, 4), (1.2, 1.3)))
    with Store(tmp_path) as store:
        assert len(store.results()) == 5
        assert [session.versions["numpy"] for session in store.sessions()] == [np.__version__] * 2
        wanted = [summary.results[3].identity]
        assert [each.identity for each in store.results(wanted)] == wanted


def test_a_run_that_fails_does_not_stop_the_others_and_is_tried_again(tmp_path, monkeypatch):
    true_train = engine.train

    def fails_with_a_gain_of_one(runs, *arguments, **options):
        if any(run.gain == 1.0 and run.depth == 4 for run in runs):
            raise ValueError("train: something\nis wrong with it")
        return true_train(runs, *arguments, **options)

    monkeypatch.setattr(engine, "train", fails_with_a_gain_of_one)
    summary = run_sweep(Spec.load(SMALL), tmp_path)
    assert [each.status for each in summary.results] == ["done", "done", "failed", "done"]
    assert summary.results[2].error == "train: something is wrong with it"
    monkeypatch.setattr(engine, "train", true_train)
    summary = run_sweep(Spec.load(SMALL), tmp_path)
    assert ([each.status for each in summary.results], summary.kept) == (["done"] * 4, 3)
    assert summary.results[2].error is None


def test_trouble_with_the_listener_is_no_fault_of_the_run(tmp_path):
    def report(standing):
        if standing.done:
            raise RuntimeError("the terminal is gone")

    with pytest.raises(RuntimeError, match="the terminal is gone"):
        run_sweep(Spec.load(SMALL), tmp_path, report=report)
    with Store(tmp_path) as store:
        counts = store.counts()
    assert counts["failed"] == 0
    assert counts["done"] >= 1
    assert run_sweep(Spec.load(SMALL), tmp_path).counts["done"] == 4


def test_what_a_killed_process_left_as_running_waits_again_and_its_old_checkpoints_go(tmp_path):
    entries, _ = resolve(Spec.load(SMALL))
    with Writer(tmp_path) as writer:
        writer.enlist(entries)
        writer.began([entry.identity for entry in entries])
        writer.ended([Ending(entries[0].identity, (), 1, 0.5, "here")])
    old = tmp_path / CHECKPOINTS / f"{entries[0].identity}.safetensors"
    old.parent.mkdir()
    old.touch()
    with Store(tmp_path) as store:
        assert store.counts() == {"waiting": 0, "running": 3, "done": 0, "diverged": 1, "failed": 0}
    with Writer(tmp_path) as writer:
        assert writer.counts() == {"waiting": 3, "running": 0, "done": 0, "diverged": 1, "failed": 0}
    summary = run_sweep(Spec.load(SMALL), tmp_path)
    assert [(each.status, each.starts) for each in summary.results] == [("diverged", 1), *[("done", 2)] * 3]
    assert not old.exists()


def test_a_run_that_cannot_be_built_is_told_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match=r"sweep: a run of depth 4 cannot be built: .* params must be at least"):
        run_sweep(Spec.load(SMALL, ["params=10", "depth=4"]), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_store_is_read_while_another_writes_it(tmp_path):
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


def test_a_status_counts_runs_and_epochs_and_names_the_best_run_and_the_errors(small, tmp_path, monkeypatch):
    now = status(small.folder)
    assert (now.runs, now.counts["done"], now.counts["diverged"], now.writer) == (5, 4, 1, None)
    assert (now.epochs_done, now.epochs_total, now.best) == (4 * 2 + 1, 5 * 2, small.best)
    monkeypatch.setattr(engine, "train", lambda *arguments, **options: 1 / 0)
    run_sweep(Spec.load(SMALL), tmp_path)
    assert (status(tmp_path).errors, status(tmp_path).best) == (("ZeroDivisionError: division by zero",), None)


def test_a_second_writer_is_refused_with_the_process_that_holds_the_folder(tmp_path):
    process = rf"process {os.getpid()} on {os.uname().nodename} since 20\d\d-"
    with Writer(tmp_path), pytest.raises(ValueError, match=rf"sweep: {tmp_path} is in use by {process}"):
        Writer(tmp_path)
    Writer(tmp_path).close()


def test_a_folder_that_is_being_created_is_in_use_by_another_process(tmp_path):
    with lock.acquire(tmp_path), pytest.raises(ValueError, match=rf"{tmp_path} is in use by another process; wait"):
        Writer(tmp_path)


def test_networks_are_saved_for_runs_that_are_done(tmp_path):
    tables = '[[runs]]\n[[runs]]\nrate_in = 1e38\nrate_out = 1e38\nclip = "none"\n'
    summary = run_sweep(Spec.load(SMALL + tables, ["gain=1.2", "depth=4"]), tmp_path, save_networks=True)
    done, lost = summary.results
    assert (done.status, lost.status) == ("done", "diverged")
    assert [path.stem for path in network_path(tmp_path, "").parent.iterdir()] == [done.identity]
    test = load("digits", examples=100).test
    outputs = load_network(network_path(tmp_path, done.identity))(torch.tensor(test.inputs(np.arange(len(test)))))
    assert (outputs.argmax(1).numpy() != test.labels).sum() == done.last.test_mistakes


def test_a_network_is_saved_before_its_run_is_recorded_as_done(tmp_path, monkeypatch):
    def refuses(*arguments):
        raise OSError("the disk is full")

    monkeypatch.setattr(engine, "save_network", refuses)
    with pytest.raises(OSError, match="the disk is full; the sweep has stopped and finished runs are saved"):
        run_sweep(Spec.load(SMALL), tmp_path, save_networks=True)
    assert status(tmp_path).counts["done"] == 0


def test_a_store_of_another_format_is_refused(small, tmp_path):
    with sqlite3.connect(small.folder / STORE) as source, sqlite3.connect(tmp_path / STORE) as target:
        source.backup(target)
        target.execute("PRAGMA user_version = 7")
    target.close()
    source.close()
    for opened in (Store, Writer):
        with pytest.raises(ValueError, match="has format 7, but this gradwalk reads format 1; use the gradwalk that"):
            opened(tmp_path)


def test_an_empty_file_is_no_sweep_yet(tmp_path):
    (tmp_path / STORE).touch()
    with pytest.raises(FileNotFoundError, match=r"there is no sweep in .* yet \(sweep.sqlite is empty\)"):
        Store(tmp_path)


def test_a_corrupt_store_is_reported_and_not_changed(small, tmp_path):
    copy = tmp_path / STORE
    content = (small.folder / STORE).read_bytes()
    with sqlite3.connect(small.folder / STORE) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'epochs'").fetchone()
    connection.close()
    hidden = content[: 4096 * (page - 1)] + os.urandom(4096) + content[4096 * page :]  # that nothing reads at first
    for harmed in (hidden, content[:4096] + os.urandom(len(content) - 4096), content[: len(content) // 2]):
        copy.write_bytes(harmed)
        with pytest.raises(ValueError, match=rf"sweep: {copy} is corrupt \(.*\) and was not changed; restore a copy"):
            run_sweep(Spec.load(SMALL), tmp_path)
        assert copy.read_bytes() == harmed
    copy.write_bytes(b"this is no database at all, but a text that somebody put here" * 20)
    for opened in (Store, Writer):
        with pytest.raises(ValueError, match=r"is corrupt \(file is not a database\) and was not"):
            opened(tmp_path)


def test_another_programs_database_is_not_touched(tmp_path):
    with sqlite3.connect(tmp_path / STORE) as other:
        other.execute("CREATE TABLE songs (name TEXT)")
    other.close()
    before = (tmp_path / STORE).read_bytes()
    for opened in (Store, Writer):
        with pytest.raises(ValueError, match="was not written by gradwalk; choose another folder"):
            opened(tmp_path)
    assert (tmp_path / STORE).read_bytes() == before


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="takes another user to be refused")
def test_a_sweep_in_a_folder_that_cannot_be_written_to_can_be_read(small, tmp_path):
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
            os._exit(0)  # whatever happens: two of us must not go on with the tests
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as said:
        assert json.loads(said.read())["done"] == 4
    assert [path.name for path in tmp_path.iterdir()] == [STORE]

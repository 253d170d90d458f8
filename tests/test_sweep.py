"""A sweep trains its runs, and one run's failure does not affect the others."""

import math
import os
from itertools import product

import numpy as np
import pytest
from helpers.small_sweep import SMALL, WITH_DIVERGED, numbers, untimed

pytest.importorskip("torch")
pytest.importorskip("pydantic")

import torch

from gradwalk.data import load
from gradwalk.nets import load_network
from gradwalk.sweep import Ending, Spec, Store, engine, run_sweep, status
from gradwalk.sweep.entry import resolve
from gradwalk.sweep.folder import CHECKPOINTS, LOCK, STORE, network_path
from gradwalk.sweep.writer import Writer
from gradwalk.train import train


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The summary of a sweep of 5 runs, the last of which diverged."""
    return run_sweep(Spec.load(WITH_DIVERGED), tmp_path_factory.mktemp("small"))


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
    assert small.best == min(small.results[:4], key=lambda result: (result.train_error, result.last.train_loss))


def test_a_sweep_that_has_ended_trains_nothing_again_and_leaves_only_its_store(small, monkeypatch):
    monkeypatch.setattr(engine, "train", None)
    again = run_sweep(Spec.load(SMALL), small.folder)
    assert again.kept == 4
    assert numbers(again.results) == numbers(small.results[:4])
    assert {result.starts for result in again.results} == {1}
    assert {path.name for path in small.folder.iterdir()} == {STORE, LOCK}


def test_two_specs_in_one_folder_share_their_runs(tmp_path, monkeypatch):
    run_sweep(Spec.load(SMALL, ["depth=4"]), tmp_path)
    trained, original = [], engine.train
    monkeypatch.setattr(engine, "train", lambda runs, *a, **k: trained.extend(runs) or original(runs, *a, **k))
    summary = run_sweep(Spec.load(SMALL, ["gain=[1.2, 1.3]"]), tmp_path)
    assert [(run.depth, run.gain) for run in trained] == [(3, 1.2), (3, 1.3), (4, 1.3)]
    assert [(result.run.depth, result.run.gain) for result in summary.results] == list(product((3, 4), (1.2, 1.3)))
    with Store(tmp_path) as store:
        assert len(store.results()) == 5
        assert [session.versions["numpy"] for session in store.sessions()] == [np.__version__] * 2
        last = summary.results[3].identity
        assert [result.identity for result in store.results([last])] == [last]


def test_a_run_that_fails_does_not_stop_the_others_and_is_tried_again(tmp_path, monkeypatch):
    original = engine.train

    def fails_with_a_gain_of_one(runs, *arguments, **options):
        if any(run.gain == 1.0 and run.depth == 4 for run in runs):
            raise ValueError("train: something\nis wrong with it")
        return original(runs, *arguments, **options)

    monkeypatch.setattr(engine, "train", fails_with_a_gain_of_one)
    summary = run_sweep(Spec.load(SMALL), tmp_path)
    assert [result.status for result in summary.results] == ["done", "done", "failed", "done"]
    assert summary.results[2].error == "train: something is wrong with it"
    monkeypatch.setattr(engine, "train", original)
    summary = run_sweep(Spec.load(SMALL), tmp_path)
    assert ([result.status for result in summary.results], summary.kept) == (["done"] * 4, 3)
    assert summary.results[2].error is None


def test_an_error_of_the_report_is_raised_and_fails_no_run(tmp_path):
    def report(progress):
        if progress.done:
            raise RuntimeError("the terminal is gone")

    with pytest.raises(RuntimeError, match="the terminal is gone"):
        run_sweep(Spec.load(SMALL), tmp_path, report=report)
    with Store(tmp_path) as store:
        counts = store.counts()
    assert counts["failed"] == 0
    assert counts["done"] >= 1
    assert run_sweep(Spec.load(SMALL), tmp_path).counts["done"] == 4


def test_runs_that_a_killed_process_left_as_running_are_trained_again_and_stale_checkpoints_removed(tmp_path):
    entries, _ = resolve(Spec.load(SMALL))
    with Writer(tmp_path) as writer:
        writer.enlist(entries)
        writer.began([entry.identity for entry in entries])
        writer.ended([Ending(entries[0].identity, (), 1, 0.5, "here")])
    old = tmp_path / CHECKPOINTS / f"{entries[0].identity}.safetensors"
    old.parent.mkdir()
    old.touch()
    with Store(tmp_path) as store:
        assert store.counts() == {"waiting": 0, "running": 0, "interrupted": 3, "done": 0, "diverged": 1, "failed": 0}
    with Writer(tmp_path) as writer:
        assert writer.counts() == {"waiting": 0, "running": 0, "interrupted": 3, "done": 0, "diverged": 1, "failed": 0}
    summary = run_sweep(Spec.load(SMALL), tmp_path)
    assert [(result.status, result.starts) for result in summary.results] == [("diverged", 1), *[("done", 2)] * 3]
    assert not old.exists()


def test_a_run_that_cannot_be_built_is_reported_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match=r"sweep: a run of depth 4 cannot be built: .* params must be at least"):
        run_sweep(Spec.load(SMALL, ["params=10", "depth=4"]), tmp_path / "out")
    assert not (tmp_path / "out").exists()


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

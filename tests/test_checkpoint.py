"""Checkpoints: they come back as they were, are never half written, and who may read them is as the user has it."""

import errno
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from gradwalk import data
from gradwalk.train import Run, State, train, worker
from gradwalk.train.checkpoint import begun, load_state, remove_checkpoints, save_state
from gradwalk.train.members import member
from gradwalk.train.watcher import Watcher


def state():
    return State([torch.ones(3, 2)], [torch.zeros(2)], epochs=2, steps=5, seconds=1.5)


def test_it_comes_back_as_it_was(tmp_path):
    path = tmp_path / "run.safetensors"
    save_state(path, "me", state())
    back = load_state(path, "me")
    assert (back.epochs, back.steps, back.seconds, back.history) == (2, 5, 1.5, [])
    assert torch.equal(back.weights[0], torch.ones(3, 2))


def test_those_of_ended_runs_are_removed_and_no_others(tmp_path):
    for identity in ("one", "two"):
        save_state(tmp_path / f"{identity}.safetensors", identity, state())
    (tmp_path / "three.safetensors.damaged").touch()
    assert begun(tmp_path) == {"one", "two"}
    remove_checkpoints(tmp_path, ["two", "three"])
    assert {path.name for path in tmp_path.iterdir()} == {"one.safetensors", "three.safetensors.damaged"}
    assert begun(tmp_path / "nowhere") == frozenset()


def test_another_runs_is_refused(tmp_path):
    save_state(tmp_path / "run.safetensors", "me", state())
    with pytest.raises(ValueError, match="belongs to another run"):
        load_state(tmp_path / "run.safetensors", "you")


def test_a_truncated_one_is_named(tmp_path):
    path = tmp_path / "run.safetensors"
    save_state(path, "me", state())
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match=r"checkpoint: .*run.safetensors is damaged"):
        load_state(path, "me")


def test_a_full_disk_leaves_the_last_one_and_nothing_half_written(tmp_path, monkeypatch):
    path = tmp_path / "run.safetensors"
    save_state(path, "me", state())
    before = path.read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"checkpoint: .* cannot be written .*No space left"):
        save_state(path, "me", State([torch.zeros(3, 2)], [torch.zeros(2)]))
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["run.safetensors"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no resource limits")
def test_a_file_that_outgrows_its_limit_ends_training_with_a_sentence(tmp_path):
    run = Run(data="digits", examples=200, depth=4, params=1e4, epochs=2, gain=1.1)
    digits = data.load("digits", examples=200)
    with files_of_at_most(4096), pytest.raises(OSError, match=r"checkpoint: .*cannot be written"):
        train([run], digits, folder=tmp_path, save_every=0.0)
    assert list(tmp_path.iterdir()) == []


@contextmanager
def files_of_at_most(size):
    """Let this process write no larger files; Python ignores the signal that would end it."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes of group and others")
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640)])
def test_who_may_read_a_checkpoint_is_as_the_user_has_it(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        save_state(tmp_path / "one.safetensors", "one", State([torch.ones(2, 2)], [torch.ones(2)]))
    finally:
        os.umask(before)
    assert (tmp_path / "one.safetensors").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize(
    ("save_every", "cost", "at"), [(0.0, 3.0, range(1, 41)), (10.0, 0.1, [11, 22, 33]), (10.0, 1.0, [11, 32])]
)
def test_writing_takes_a_twentieth_of_the_time_at_most(tmp_path, monkeypatch, save_every, cost, at):
    """A clock that steps advance by 1 and checkpoints by what they cost; `at`: the steps after which one is written."""
    clock, saved = [0.0, 0], []

    class Steps(Watcher):
        def stepped(self, networks):
            clock[0] += 1
            clock[1] += 1

    def save(*_):
        clock[0] += cost
        saved.append(clock[1])

    monkeypatch.setattr(worker, "save_state", save)
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    run, digits = (
        Run(data="digits", examples=200, depth=3, width=4, epochs=20, gain=1.1),
        data.load("digits", examples=200),
    )
    one = worker.Worker([member(0, run, digits)], digits, folder=tmp_path, save_every=save_every)
    one.report = lambda event: event(Steps())
    with ThreadPoolExecutor(1) as pool:  # it flushes denormal numbers to zero in its thread
        pool.submit(one.train).result()
    assert saved == list(at)

"""Engines: what an engine from outside the package needs, how runs are stacked, planned and reported."""

import os
import signal
from collections.abc import Sequence
from itertools import pairwise

import pytest
from helpers.small_sweep import SMALL, numbers

pytest.importorskip("torch")
pytest.importorskip("pydantic")

from gradwalk.data import Datasets, catalogue
from gradwalk.interrupts import Interrupts
from gradwalk.sweep import (
    ENGINES,
    Engine,
    EngineOptions,
    Job,
    Listener,
    Spec,
    engine,
    plan,
    run_sweep,
    train_job,
)
from gradwalk.sweep.entry import resolve
from gradwalk.sweep.record import Recorder
from gradwalk.sweep.stacks import epoch_flops, make_jobs
from gradwalk.sweep.writer import Writer


class Backwards(Engine):
    """An engine from outside the package: trains the last job first, and notes its options."""

    name = "backwards"
    seen: tuple[EngineOptions, list[int]]

    def train(self, jobs: Sequence[Job], listener: Listener) -> None:
        Backwards.seen = self.options, [job.entries[0].run.depth for job in reversed(jobs)]
        for job in reversed(jobs):
            train_job(job, self.options, listener)


class Bare:
    """An engine that inherits nothing, takes an address, and trains every run alone."""

    name, takes_address = "bare", True

    def __init__(self, options):
        self.options, self.entered = options, 0

    def __enter__(self):
        self.entered += 1
        return self

    def __exit__(self, *error):
        self.entered -= 1

    def jobs(self, entries, data, begun):
        return [Job((entry,), data[entry.run]) for entry in entries]

    def train(self, jobs, listener):
        assert (self.entered, self.options.address) == (1, "somewhere")
        for job in jobs:
            train_job(job, self.options, listener)


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """The numbers of the small sweep with the built-in engine."""
    return numbers(run_sweep(Spec.load(SMALL), tmp_path_factory.mktemp("local")).results)


def test_an_engine_from_outside_gives_the_numbers_of_the_built_in_one(local, tmp_path):
    ENGINES.register(Backwards)
    summary = run_sweep(Spec.load(SMALL), tmp_path, engine="backwards", threads=1, save_every=5.0, save_networks=True)
    options, depths = Backwards.seen
    assert numbers(summary.results) == local
    assert depths == [4, 3]
    assert (options.folder, options.threads, options.save_every) == (tmp_path, 1, 5.0)
    assert len(list((tmp_path / "networks").iterdir())) == 4


def test_an_engine_needs_no_base_class(local, tmp_path):
    ENGINES.register(Bare)
    summary = run_sweep(Spec.load(SMALL), tmp_path, engine="bare", address="somewhere")
    assert numbers(summary.results) == local


def test_an_unknown_engine_is_refused_with_a_suggestion(tmp_path):
    with pytest.raises(ValueError, match=r"sweep: there is no engine 'locl'; did you mean 'local'\?"):
        run_sweep(Spec.load(SMALL), tmp_path / "out", engine="locl")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("device", ["cuda:99", "gpu", "meta"])
def test_a_device_that_is_missing_is_refused_before_anything_is_written(tmp_path, device):
    with pytest.raises(
        ValueError, match=rf"sweep: device must be one that torch can use here.* got device='{device}' \("
    ):
        run_sweep(Spec.load(SMALL), tmp_path / "out", device=device)
    assert not (tmp_path / "out").exists()


def test_an_engine_without_a_cluster_takes_no_address(tmp_path):
    with pytest.raises(ValueError, match="sweep: engine='local' takes no address, got address='auto'"):
        run_sweep(Spec.load(SMALL), tmp_path, address="auto")


def test_the_device_reaches_training(tmp_path, monkeypatch):
    devices = []
    monkeypatch.setattr(engine, "train", lambda *_, device, **options: devices.append(device))
    options = EngineOptions(tmp_path, threads=1, device="somewhere")
    entries, data = resolve(Spec.load(SMALL, ["depth=3"]))
    (job,) = make_jobs(entries, data, threads=1)
    with Writer(tmp_path) as writer:
        writer.enlist(entries)
        train_job(job, options, Recorder(writer, [job], {}, tmp_path, Interrupts(), None))
    assert devices == ["somewhere"]


def test_operations_are_those_of_the_products_of_an_epoch():
    widths, train_examples, test_examples = (7, 5, 4, 3), 20, 6
    count = 0
    for d, (fan_in, fan_out) in enumerate(pairwise(widths)):
        forward = 2 * fan_in * fan_out
        count += forward * (train_examples + train_examples + test_examples)  # a step, and the measurement
        count += forward * train_examples * (2 if d else 1)  # the gradient, and back to the layer before
    assert epoch_flops(widths, train_examples, test_examples) == count
    seldom = epoch_flops(widths, train_examples, test_examples, measure_every=4)
    assert seldom == count - 0.75 * 2 * (7 * 5 + 5 * 4 + 4 * 3) * (train_examples + test_examples)


def test_stacks_are_even_and_stay_below_their_memory():
    entries, data = resolve(Spec.load(SMALL, [f"seed={list(range(150))}", "depth=4"]))
    sizes = [len(job.entries) for job in make_jobs(entries, data, threads=1)]
    assert sizes == [60] * 5  # of 64 networks a thread at most
    assert [len(job.entries) for job in make_jobs(entries, data, threads=2)] == [100] * 3
    (whole,) = make_jobs(entries[:100], data, threads=2)
    entries, room = entries[:100], 9.5 * whole.memory / 100
    stacks = make_jobs(entries, data, threads=2, memory=room)
    assert max(job.memory for job in stacks) <= room
    assert max(len(job.entries) for job in stacks) - min(len(job.entries) for job in stacks) <= 1
    assert [entry for job in stacks for entry in job.entries] == entries
    assert len(make_jobs(entries, data, threads=1, memory=1.0)) == 100  # one at a time, whatever there is


def test_runs_that_have_begun_come_first_and_apart():
    entries, data = resolve(Spec.load(SMALL))
    begun = frozenset([entries[1].identity, entries[2].identity])
    stacks = make_jobs(entries, data, threads=2, begun=begun)
    assert [[entries.index(entry) for entry in job.entries] for job in stacks] == [[1], [2], [0], [3]]


def test_a_plan_counts_what_is_left_and_measures_the_time_it_takes(tmp_path):
    run_sweep(Spec.load(SMALL), tmp_path / "half")
    spec = Spec.load(SMALL, ["seed=[0, 1]"])
    planned = plan(spec, tmp_path / "half", threads=1)
    assert (planned.total, planned.kept) == (8, 4)
    assert [(row.depth, row.runs, row.stacks, row.networks) for row in planned.rows] == [(3, 2, 1, 2), (4, 2, 1, 2)]
    for row in planned.rows:
        entries, data = resolve(Spec.load(SMALL, [f"depth={row.depth}"]))
        widths = entries[0].run.architecture(data[entries[0].run]).widths
        assert (row.parameters, row.width) == (entries[0].parameters, widths[1])
        assert row.flops == 2 * 2 * epoch_flops(widths, 100, 355)  # runs, epochs
    assert 0 < planned.seconds < 60
    assert plan(spec, tmp_path / "nothing", measure=False).seconds is None
    assert not (tmp_path / "nothing").exists()


def test_a_data_set_is_loaded_once_for_plan_and_sweep(tmp_path, monkeypatch):
    loads, load = [], catalogue.load
    monkeypatch.setattr(catalogue, "load", lambda name, **options: loads.append(name) or load(name, **options))
    datasets = Datasets()
    plan(Spec.load(SMALL), measure=False, datasets=datasets)
    run_sweep(Spec.load(SMALL), tmp_path, datasets=datasets)
    assert loads == ["digits"]


def test_progress_counts_to_the_end(tmp_path):
    reports = []
    run_sweep(Spec.load(SMALL, ["epochs=3", "gain=1.1"]), tmp_path, report=reports.append)
    run_sweep(Spec.load(SMALL, ["epochs=3"]), tmp_path, report=reports.append)
    run_sweep(Spec.load(SMALL, ["epochs=3", "gain=1.1"]), tmp_path, report=reports.append)
    last = reports[-1]
    assert (last.total, last.done, last.ended, last.kept) == (6 - 2, 4, 4, 0)
    assert last.steps == 4 * 3


def _write_interrupted(interrupts, done):
    with interrupts.held():
        os.kill(os.getpid(), signal.SIGINT)
        done.append("written")


def test_an_interrupt_waits_for_what_is_held_and_no_longer():
    interrupts, done = Interrupts(), []
    before = signal.getsignal(signal.SIGINT)
    with interrupts.caught():
        with pytest.raises(KeyboardInterrupt):
            _write_interrupted(interrupts, done)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
    assert done == ["written"]
    assert signal.getsignal(signal.SIGINT) is before

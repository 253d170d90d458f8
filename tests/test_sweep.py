"""A sweep trains its runs, the store keeps what came out, and nothing is lost when something is wrong."""

import csv
import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from helpers.small_sweep import SMALL

pytest.importorskip("torch")
pytest.importorskip("pydantic")

from gradwalk.data import load
from gradwalk.sweep import Spec, Store, engine, run_sweep, schema, session, table
from gradwalk.sweep.interrupt import Interrupts
from gradwalk.sweep.plan import plan
from gradwalk.sweep.plot import plot
from gradwalk.sweep.stacks import epoch_flops, jobs
from gradwalk.sweep.store import CHECKPOINTS
from gradwalk.sweep.writer import Ending, Writer
from gradwalk.train import Epoch, Run, train


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The folder of a sweep of 5 runs, one of which diverged, and its summary."""
    folder = tmp_path_factory.mktemp("small")
    tables = '[[runs]]\n[[runs]]\ndepth = 3\ngain = 1.0\nrate_in = 1e38\nrate_out = 1e38\nclip = "none"\n'
    return run_sweep(Spec.load(SMALL + tables), folder)


def numbers(result):
    """What a result says that no clock has a part in."""
    return result.status, result.diverged, tuple(replace(each, seconds=0.0) for each in result.epochs)


# The sweep and its store


def test_a_sweep_gives_each_run_the_numbers_that_it_has_when_trained_alone(small):
    data = load("digits", examples=100)
    for result in small.results:
        (alone,) = train([result.run], data, threads=1)
        expected = "done" if alone.diverged is None else "diverged", alone.diverged, alone.epochs
        assert numbers(result) == (*expected[:2], tuple(replace(each, seconds=0.0) for each in expected[2]))
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
    assert [numbers(each) for each in again.results] == [numbers(each) for each in small.results[:4]]
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
        assert [json.loads(each["versions"])["numpy"] for each in store.sessions()] == [np.__version__] * 2
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
    assert run_sweep(Spec.load(SMALL), tmp_path).count("done") == 4


def test_what_a_killed_process_left_as_running_waits_again_and_its_old_checkpoints_go(tmp_path):
    entries, _ = session.enlisted(Spec.load(SMALL))
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


def test_an_address_needs_the_ray_engine_and_engines_are_two(tmp_path):
    with pytest.raises(ValueError, match="sweep: address= is for engine='ray', got engine='local'"):
        run_sweep(Spec.load(SMALL), tmp_path, address="auto")
    with pytest.raises(ValueError, match='sweep: engine must be "local" or "ray", got engine=\'spark\''):
        run_sweep(Spec.load(SMALL), tmp_path, engine="spark")


def test_the_store_is_read_while_another_writes_it(tmp_path):
    entries, _ = session.enlisted(Spec.load(SMALL))
    with Writer(tmp_path) as writer, Store(tmp_path) as store:
        writer.enlist(entries)
        writer.measured(entries[0].identity, Epoch(1, 0.5, 1, math.nan, 2, 0, 0.1))
        writer.flush()
        assert store.results()[0].epochs[0].train_loss == 0.5
        assert math.isnan(store.results()[0].epochs[0].test_loss)
        assert store.holder()["pid"] == os.getpid()
    with Store(tmp_path) as store:
        assert store.holder() is None


def test_a_second_writer_is_refused_and_told_who_holds_the_folder(tmp_path):
    with Writer(tmp_path):
        code = f"from gradwalk.sweep.writer import Writer; Writer({str(tmp_path)!r})"
        second = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    said = f"ValueError: sweep: {tmp_path} is in use by process {os.getpid()} on {os.uname().nodename} since 20"
    assert said in second.stderr
    Writer(tmp_path).close()


def test_a_store_of_this_version_written_by_hand_opens(tmp_path):
    run = Run(data="digits", depth=3, epochs=1)
    connection = sqlite3.connect(tmp_path / schema.FILE)
    connection.executescript(schema.STEPS[0])
    connection.execute("PRAGMA user_version = 1")
    connection.execute(f"PRAGMA application_id = {0x67776B31}")
    connection.execute(
        "INSERT INTO runs (identity, settings, parameters, train_examples, test_examples, status) "
        "VALUES ('abc', ?, 10, 5, 4, 'done')",
        (json.dumps({"data": "digits", "depth": 3, "epochs": 1}),),
    )
    connection.execute("INSERT INTO epochs VALUES (1, 1, 0.5, 1, NULL, 2, 0, 0.1)")
    connection.commit()
    connection.close()
    with Store(tmp_path) as store:
        (found,) = store.results()
    assert (found.run, found.identity, found.train_error, found.test_error) == (run, "abc", 0.2, 0.5)


def test_an_older_store_still_opens_and_a_newer_one_is_refused(small, tmp_path, monkeypatch):
    copy = tmp_path / "copy"
    copy.mkdir()
    with sqlite3.connect(small.folder / schema.FILE) as source, sqlite3.connect(copy / schema.FILE) as target:
        source.backup(target)
    target.close()
    source.close()
    monkeypatch.setattr(schema, "STEPS", (*schema.STEPS, "ALTER TABLE runs ADD COLUMN note TEXT DEFAULT 'old'"))
    before = (copy / schema.FILE).read_bytes()
    with Store(copy) as store:
        assert [numbers(each) for each in store.results()] == [numbers(each) for each in small.results]
        assert [row["note"] for row in store._rows("SELECT note FROM runs")] == ["old"] * 5
    assert (copy / schema.FILE).read_bytes() == before
    with Writer(copy) as writer:
        assert [numbers(each) for each in writer.results()] == [numbers(each) for each in small.results]
    monkeypatch.undo()
    for opened in (Store, Writer):
        with pytest.raises(ValueError, match="has version 2, and this gradwalk knows 1 and older; use a newer"):
            opened(copy)


def test_a_damaged_store_is_named_and_left_as_it_is(small, tmp_path):
    copy = tmp_path / schema.FILE
    content = (small.folder / schema.FILE).read_bytes()
    with sqlite3.connect(small.folder / schema.FILE) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'epochs'").fetchone()
    connection.close()
    hidden = content[: 4096 * (page - 1)] + os.urandom(4096) + content[4096 * page :]  # that nothing reads at first
    for harmed in (hidden, content[:4096] + os.urandom(len(content) - 4096), content[: len(content) // 2]):
        copy.write_bytes(harmed)
        with pytest.raises(ValueError, match=rf"sweep: {copy} is damaged \(.*\) and was left as it is; put a copy"):
            run_sweep(Spec.load(SMALL), tmp_path)
        assert copy.read_bytes() == harmed
    copy.write_bytes(b"this is no database at all, but a text that somebody put here" * 20)
    for opened in (Store, Writer):
        with pytest.raises(ValueError, match=r"is damaged \(file is not a database\) and was left"):
            opened(tmp_path)


def test_another_programs_database_is_not_touched(tmp_path):
    with sqlite3.connect(tmp_path / schema.FILE) as other:
        other.execute("CREATE TABLE songs (name TEXT)")
    other.close()
    before = (tmp_path / schema.FILE).read_bytes()
    for opened in (Store, Writer):
        with pytest.raises(ValueError, match="is no store of gradwalk's; choose another folder"):
            opened(tmp_path)
    assert (tmp_path / schema.FILE).read_bytes() == before


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="takes another user to be refused")
def test_a_sweep_in_a_folder_that_cannot_be_written_to_can_be_read(small, tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / schema.FILE).write_bytes((small.folder / schema.FILE).read_bytes())
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
    assert [path.name for path in tmp_path.iterdir()] == [schema.FILE]


# Stacks, the plan and the standing


def test_operations_are_those_of_the_products_of_an_epoch():
    widths, train_examples, test_examples = (7, 5, 4, 3), 20, 6
    count = 0
    for d, (fan_in, fan_out) in enumerate(pairwise(widths)):
        forward = 2 * fan_in * fan_out
        count += forward * (train_examples + train_examples + test_examples)  # a step, and the measurement
        count += forward * train_examples * (2 if d else 1)  # the gradient, and back to the layer before
    assert epoch_flops(widths, train_examples, test_examples) == count


def test_stacks_are_even_and_stay_below_their_memory():
    entries, data = session.enlisted(Spec.load(SMALL, [f"seed={list(range(150))}", "depth=4"]))
    sizes = [len(job.entries) for job in jobs(entries, data, threads=1)]
    assert sizes == [60] * 5  # of 64 networks a thread at most
    assert [len(job.entries) for job in jobs(entries, data, threads=2)] == [100] * 3
    (whole,) = jobs(entries[:100], data, threads=2)
    entries, room = entries[:100], 9.5 * whole.memory / 100
    found = jobs(entries, data, threads=2, memory=room)
    assert max(job.memory for job in found) <= room
    assert max(len(job.entries) for job in found) - min(len(job.entries) for job in found) <= 1
    assert [entry for job in found for entry in job.entries] == entries
    assert len(jobs(entries, data, threads=1, memory=1.0)) == 100  # one at a time, whatever there is


def test_runs_that_have_begun_come_first_and_apart():
    entries, data = session.enlisted(Spec.load(SMALL))
    begun = frozenset([entries[1].identity, entries[2].identity])
    found = jobs(entries, data, threads=2, begun=begun)
    assert [[entries.index(entry) for entry in job.entries] for job in found] == [[1], [2], [0], [3]]


def test_a_plan_counts_what_is_left_and_measures_the_time_it_takes(small, tmp_path):
    spec = Spec.load(SMALL, ["seed=[0, 1]"])
    found = plan(spec, small.folder, threads=1)
    assert (found.total, found.kept) == (8, 4)
    assert [(row.depth, row.runs, row.stacks, row.networks) for row in found.rows] == [(3, 2, 1, 2), (4, 2, 1, 2)]
    for row in found.rows:
        entries, data = session.enlisted(Spec.load(SMALL, [f"depth={row.depth}"]))
        widths = entries[0].run.architecture(data[entries[0].run]).widths
        assert (row.parameters, row.width) == (entries[0].parameters, widths[1])
        assert row.flops == 2 * 2 * epoch_flops(widths, 100, 355)  # runs, epochs
    assert 0 < found.seconds < 60
    assert plan(spec, tmp_path / "nothing", measure=False).seconds is None
    assert not (tmp_path / "nothing").exists()


def test_the_standing_counts_to_the_end(tmp_path):
    standings = []
    run_sweep(Spec.load(SMALL, ["epochs=3", "gain=1.1"]), tmp_path, report=standings.append)
    run_sweep(Spec.load(SMALL, ["epochs=3"]), tmp_path, report=standings.append)
    run_sweep(Spec.load(SMALL, ["epochs=3", "gain=1.1"]), tmp_path, report=standings.append)
    last = standings[-1]
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


# Tables and pictures


def test_tables_hold_what_the_store_holds(small, tmp_path):
    pyarrow = pytest.importorskip("pyarrow.parquet")
    for rows, name in ((table.run_rows(small.results), "runs"), (table.epoch_rows(small.results), "epochs")):
        table.export(rows, tmp_path / f"{name}.csv")
        table.export(rows, tmp_path / f"{name}.parquet")
        with (tmp_path / f"{name}.csv").open(newline="") as file:
            written = list(csv.DictReader(file))
        read = pyarrow.read_table(tmp_path / f"{name}.parquet")
        assert len(written) == len(rows) == read.num_rows
        for row, text, arrow in zip(rows, written, read.to_pylist(), strict=True):
            assert text == {key: "" if value is None else str(value) for key, value in row.items()}
            assert str(arrow) == str(row)
    runs = pyarrow.read_table(tmp_path / "runs.parquet")
    assert [str(runs.schema.field(name).type) for name in ("gain", "clip", "depth", "error", "stop_at_zero")] == [
        *("double", "double", "int64", "string", "bool")
    ]
    assert runs.column("diverged").to_pylist() == [None] * 4 + [2]


def test_a_plot_shows_every_run_and_the_best_of_each_colour(small):
    panel = plot(small.results).axes[0]
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("gain", "training error")
    lines = {line.get_label(): line.get_xydata().tolist() for line in panel.lines}
    for depth in (3, 4):
        expected = [[each.run.gain, each.train_error] for each in small.results[:4] if each.run.depth == depth]
        assert lines[str(depth)] == expected
    crosses = [points for points in panel.collections if len(points.get_paths()) and points.get_offsets().shape[0] == 1]
    assert [points.get_offsets()[0, 0] for points in crosses] == [1.0]
    assert plot(small.results, "activation", "gain", "test").axes[0].get_ylabel() == "test error"
    with pytest.raises(ValueError, match="sweep plot: x must be"):
        plot(small.results, "colour")
    with pytest.raises(ValueError, match="no run has finished an epoch yet"):
        plot([])

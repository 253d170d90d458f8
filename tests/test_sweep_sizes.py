"""Large sweeps: the work grows in proportion to the runs and not with their epochs, and memory not at all.

`stress/sizes.py` measures seconds and megabytes at full size.
"""

import cProfile
import pstats
import tracemalloc
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("pydantic")

from gradwalk.data import Datasets
from gradwalk.sweep import Spec, Store, export, plan, status
from gradwalk.sweep.export import write_table

DATASETS = Datasets()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A function that returns the folder of a store with so many runs of so many epochs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[1] / "stress")
        from sizes import write_store

    folders = {}

    def written(runs, epochs):
        if (runs, epochs) not in folders:
            folders[runs, epochs] = tmp_path_factory.mktemp("store")
            write_store(folders[runs, epochs], runs, epochs)
        return folders[runs, epochs]

    return written


def calls(function, *arguments, **options):
    """How many Python functions and methods of C types a call takes."""
    function(*arguments, **options)  # which imports, and fills caches
    profile = cProfile.Profile()
    profile.runcall(function, *arguments, **options)
    return pstats.Stats(profile).total_calls


def per_run(counts, runs):
    """The calls that each further run takes, which must be the same between the first two sizes and the last two."""
    first, second = ((b - a) / (n - m) for a, b, m, n in zip(counts, counts[1:], runs, runs[1:], strict=False))
    assert second == pytest.approx(first, rel=0.02)
    return second


def test_status_takes_work_in_proportion_to_the_runs_and_none_for_their_epochs(store):
    runs = (50, 100, 200)
    assert per_run([calls(status, store(number, 5)) for number in runs], runs) < 60
    assert calls(status, store(50, 500)) == calls(status, store(50, 5))


def test_status_reads_each_table_a_fixed_number_of_times(store, monkeypatch):
    statements = []
    opened = Store._open

    def traced(self):
        connection = opened(self)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(Store, "_open", traced)
    counts = []
    for number in (50, 200):
        statements.clear()
        status(store(number, 5))
        counts.append(len(statements))
    assert counts[0] == counts[1] < 10


def test_status_notices_a_changed_epoch_in_the_middle_of_a_long_run(store, tmp_path):
    import sqlite3
    from contextlib import closing

    content = (store(50, 500) / "sweep.sqlite").read_bytes()
    (tmp_path / "sweep.sqlite").write_bytes(content)
    with closing(sqlite3.connect(tmp_path / "sweep.sqlite")) as changed, changed:
        (epochs,) = changed.execute("SELECT epochs FROM runs WHERE id = 7").fetchone()
        middle = len(epochs) // 2
        changed.execute("UPDATE runs SET epochs = ? WHERE id = 7", [epochs[:middle] + b"\1" + epochs[middle + 1 :]])
    assert len(status(tmp_path).unreadable) == 1


def plan_of(runs):
    gains = [1 + place / 1000 for place in range(runs // 2)]
    spec = Spec.load(f'data = "digits"\ndepth = [3, 4]\nparams = 2e3\ngain = {gains}\n')
    return plan(spec, measure=False, datasets=DATASETS)


def test_a_plan_takes_work_in_proportion_to_the_runs():
    runs = (100, 200, 400)
    assert per_run([calls(plan_of, number) for number in runs], runs) < 200


def peak(folder, path):
    """The largest number of bytes in use while the epochs are exported."""
    tracemalloc.start()
    try:
        with Store(folder) as store:
            assert write_table(store.stream(), path, by_epoch=True)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_an_export_holds_one_part_of_the_rows_in_memory(store, tmp_path, monkeypatch, suffix):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(export, "_PART", 250)
    path = tmp_path / f"epochs{suffix}"
    peak(store(10, 50), path)  # which imports
    small, large = (peak(store(number, 50), path) for number in (10, 60))
    assert large < 1.2 * small

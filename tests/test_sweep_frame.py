"""Results as data frames, as files and as a plot."""

import json
import math

import pandas as pd
import pytest
from helpers.small_sweep import SMALL, WITH_DIVERGED

pytest.importorskip("torch")
pytest.importorskip("pydantic")

from gradwalk.sweep import Result, Spec, Store, plot, run_sweep, status
from gradwalk.sweep.export import write_table
from gradwalk.sweep.frame import runs_frame
from gradwalk.sweep.labels import run_labels
from gradwalk.train import Epoch, Run


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The summary of a sweep of 5 runs, the last of which diverged."""
    return run_sweep(Spec.load(WITH_DIVERGED), tmp_path_factory.mktemp("small"))


def test_the_frame_of_runs_has_settings_and_last_measurements(small):
    frame = small.runs_frame()
    assert len(frame) == 5
    for row, result in zip(frame.to_dict("records"), small.results, strict=True):
        settings = {key: None if pd.isna(row[key]) else row[key] for key in Run.model_fields}
        assert settings == result.run.model_dump()
        assert (row["identity"], row["status"], row["epochs_done"]) == (
            *(result.identity, result.status, len(result.epochs)),
        )
        assert (row["train_loss"], row["test_mistakes"]) == (result.last.train_loss, result.last.test_mistakes)
        assert row["train_error"] == result.train_error or (math.isnan(row["train_error"]) and result.diverged)
        assert row["ended"].timestamp() == pytest.approx(result.ended, abs=1)
        assert json.loads(row["versions"]) == result.versions


def test_the_frame_of_epochs_has_the_settings_of_its_runs(small):
    frame = small.epochs_frame()
    assert len(frame) == 4 * 2 + 1
    expected = [(result, epoch) for result in small.results for epoch in result.epochs]
    for row, (result, epoch) in zip(frame.to_dict("records"), expected, strict=True):
        assert {key: row[key] for key in vars(epoch)} == vars(epoch)
        assert (row["identity"], row["depth"], row["gain"]) == (result.identity, result.run.depth, result.run.gain)
        assert row["train_error"] == epoch.train_mistakes / 100


def test_frames_name_the_epochs_that_were_measured(tmp_path):
    summary = run_sweep(Spec.load(SMALL, ["epochs=5", "measure_every=2"]), tmp_path)
    epochs, runs = summary.epochs_frame(), summary.runs_frame()
    for _, measured in epochs.groupby("identity"):
        assert measured["epoch"].tolist() == [2, 4, 5]
        assert (measured["measure_every"] == 2).all()
    assert (runs["epochs_done"] == 5).all()
    assert status(tmp_path).epochs_done == 5 * len(runs)


def test_columns_have_the_types_of_the_settings_whatever_their_values(small):
    unset = Result(Run(data="digits", depth=3), "a", "waiting")
    types = {name: str(dtype) for name, dtype in runs_frame([unset]).dtypes.items()}
    assert types == {name: str(dtype) for name, dtype in small.runs_frame().dtypes.items()}
    names = ("gain", "clip", "depth", "examples", "diverged", "error", "stop_at_zero", "scaling", "began")
    assert [types[name] for name in names] == [
        *("float64", "float64", "int64", "Int64", "Int64", "string", "bool", "string", "datetime64[ns, UTC]"),
    ]


@pytest.mark.parametrize("rows_at_a_time", [1, 3, 1000])
def test_files_hold_what_the_frames_hold(small, tmp_path, monkeypatch, rows_at_a_time):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("gradwalk.sweep.export._PART", rows_at_a_time)
    with Store(small.folder) as store:
        frames = {"runs": store.runs_frame(), "epochs": store.epochs_frame()}
    for name, frame in frames.items():
        for suffix in ("csv", "parquet"):
            rows = write_table(iter(small.results), tmp_path / f"{name}.{suffix}", by_epoch=name == "epochs")
            assert rows == len(frame)
        types = {column: dtype for column, dtype in frame.dtypes.items() if column not in ("began", "ended")}
        written = pd.read_csv(
            tmp_path / f"{name}.csv", dtype=types, parse_dates=["began", "ended"][: name == "runs" and 2]
        )
        pd.testing.assert_frame_equal(written, frame, check_dtype=False)
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / f"{name}.parquet"), frame, check_dtype=False)


def test_an_empty_frame_is_not_written(tmp_path):
    with pytest.raises(ValueError, match=r"sweep: there are no rows to write to runs\.csv yet"):
        write_table([], tmp_path / "runs.csv")
    with pytest.raises(ValueError, match=r"sweep: there are no rows to write to epochs\.csv yet"):
        write_table([Result(Run(data="digits"), "a", "waiting")], tmp_path / "epochs.csv", by_epoch=True)
    assert not list(tmp_path.iterdir())


def test_labels_name_the_settings_in_which_runs_differ(small):
    assert run_labels(small.results[:4]) == [f"depth {d}, gain {g}" for d in (3, 4) for g in ("1", "1.2")]
    assert run_labels(small.results[:1]) == [""]


def test_a_plot_shows_every_run_and_the_best_of_each_colour(small):
    panel = plot(small.results).axes[0]
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("gain", "training error")
    lines = {line.get_label(): line.get_xydata().tolist() for line in panel.lines}
    for depth in (3, 4):
        expected = [[result.run.gain, result.train_error] for result in small.results[:4] if result.run.depth == depth]
        assert lines[str(depth)] == expected
    crosses = [points for points in panel.collections if len(points.get_paths()) and points.get_offsets().shape[0] == 1]
    assert [points.get_offsets()[0, 0] for points in crosses] == [1.0]
    assert plot(small.results, "activation", "gain", "test").axes[0].get_ylabel() == "test error"
    with pytest.raises(ValueError, match="sweep plot: x must be"):
        plot(small.results, "colour")
    with pytest.raises(ValueError, match="no run has finished an epoch yet"):
        plot([])


def test_a_plot_needs_only_one_setting_that_varies():
    epochs = (Epoch(1, 0.5, 3, 0.5, 2, 0, 0.1),)
    sizes = {"train_examples": 10, "test_examples": 10}
    results = [Result(Run(data="digits", depth=depth), f"{depth}", "done", epochs, **sizes) for depth in (3, 4)]
    panel = plot(results).axes[0]
    assert (panel.get_xlabel(), panel.get_legend()) == ("depth", None)
    assert panel.lines[0].get_xydata().tolist() == [[3, 0.3], [4, 0.3]]
    assert plot(results[:1]).axes[0].get_xlabel() == "gain"

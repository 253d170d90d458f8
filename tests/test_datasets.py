"""Data sets are added from outside the package, made from arrays, and loaded once."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gradwalk import data
from gradwalk.cli.data import data_commands
from gradwalk.data import DATASETS, Dataset, Datasets, DataSource, catalogue, from_arrays

BUILT_IN = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "digits": "digits", "timit": "TIMIT"}


def blobs(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return `count` points around three centres, with the number of their centre."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, count)
    return 4 * np.eye(3)[y] + rng.standard_normal((count, 3)), y


def load_blobs(examples=None, scaling="dimension", folder=None) -> Dataset:
    return from_arrays("blobs", train=blobs(300, 0), test=blobs(60, 1), examples=examples, scaling=scaling)


# The registry


def test_a_data_set_from_outside_is_found_listed_and_trained_on() -> None:
    pytest.importorskip("torch")
    from gradwalk.train import Run, train

    DATASETS.register(DataSource("blobs", load_blobs))
    loaded = data.load("blobs", examples=200)
    assert repr(loaded) == "Dataset(name='blobs', train=200, test=60, width=3, classes=3)"
    (outcome,) = train([Run(data="blobs", examples=200, depth=3, params=300, epochs=10, rate_in=0.1)], loaded)
    assert outcome.epochs[-1].test_mistakes < 6
    assert (data.title("blobs"), data.full_size("blobs")) == ("blobs", None)
    listed = CliRunner().invoke(data_commands(), ["list"], catch_exceptions=False).stdout.splitlines()
    assert "blobs" in [line.strip() for line in listed]


def test_a_sweep_over_a_data_set_from_outside_is_stored_under_its_name(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from gradwalk.sweep import Spec, run_sweep

    DATASETS.register(DataSource("blobs", load_blobs))
    spec = Spec.load('data = "blobs"\ndepth = 3\nparams = 300\nepochs = 2\ngain = [1.0, 1.1]')
    summary = run_sweep(spec, tmp_path)
    assert [(result.run.data, result.status, result.train_examples) for result in summary.results] == [
        ("blobs", "done", 300),
        ("blobs", "done", 300),
    ]


def test_a_source_without_a_file_cannot_be_fetched() -> None:
    DATASETS.register(DataSource("blobs", load_blobs))
    with pytest.raises(ValueError, match=r"^fetch: the data set 'blobs' is not kept in the data folder; load it with "):
        data.fetch("blobs")


def test_a_record_needs_a_loader() -> None:
    with pytest.raises(TypeError, match=r"^DataSource: load must be a function that returns a Dataset, got load=None$"):
        DataSource("blobs", None)


def test_what_is_known_about_the_built_in_data_sets_is_on_their_records() -> None:
    assert {name: data.title(name) for name in BUILT_IN} == BUILT_IN
    assert {name: DATASETS[name].stand_in for name in BUILT_IN if DATASETS[name].stand_in} == {"mnist": "digits"}
    assert data.full_size("mnist") == data.full_size("fashion_mnist") == 60_000
    assert data.full_size("digits") == len(data.load("digits").train)
    assert DATASETS["digits"].holding().test == len(data.load("digits").test)


def test_options_belong_to_the_source_that_declares_them() -> None:
    def load_tilted(examples=None, scaling="dimension", folder=None, tilt=0.0) -> Dataset:
        (x, y), test = blobs(30, 0), blobs(6, 1)
        return from_arrays("tilted", train=(x + tilt, y), test=test, examples=examples, scaling=scaling)

    DATASETS.register(DataSource("tilted", load_tilted, options=("tilt",)))
    plain, tilted = data.load("tilted", scaling="none"), data.load("tilted", scaling="none", tilt=2.0)
    np.testing.assert_allclose(tilted.train.frames, plain.train.frames + 2.0, rtol=1e-6)
    with pytest.raises(TypeError, match=r"^load: tilted has no option 'phones'; .* examples, scaling, folder, tilt$"):
        data.load("tilted", phones=39)


# Arrays


def test_arrays_are_standardised_and_left_alone() -> None:
    train, test = blobs(50, 0), blobs(20, 1)
    before = train[0].copy()
    loaded = from_arrays("blobs", train=train, test=test)
    np.testing.assert_array_equal(train[0], before)
    np.testing.assert_allclose(loaded.train.frames.std(axis=0), 1, rtol=1e-5)
    expected = (test[0] - before.mean(axis=0)) / before.std(axis=0)
    np.testing.assert_allclose(loaded.test.frames, expected, atol=1e-5)
    np.testing.assert_array_equal(loaded.test.labels, test[1])
    assert (loaded.train.frames.dtype, loaded.train.labels.dtype) == (np.float32, np.int64)


def test_unscaled_float32_arrays_are_copied_too() -> None:
    x, y = np.zeros((4, 2), np.float32), np.zeros(4, np.int64)
    loaded = from_arrays("zeros", train=(x, y), test=(x, y), scaling="none")
    assert not np.shares_memory(loaded.train.frames, x)
    assert not np.shares_memory(loaded.train.labels, y)


def test_images_are_flattened() -> None:
    x = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    loaded = from_arrays("images", train=(x, [0, 1]), test=(x, [0, 1]), classes=5, scaling="none")
    np.testing.assert_array_equal(loaded.train.frames, x.reshape(2, 12))
    assert loaded.classes == 5


def test_the_digest_depends_on_everything_that_determines_the_numbers() -> None:
    def digest(change: str = "", **options) -> str:
        (x, y), test = blobs(50, 0), blobs(20, 1)
        if change == "pixel":
            x[7, 1] += 1
        if change == "label":
            y[7] = (y[7] + 1) % 3
        if change == "test":
            test[0][3, 0] += 1
        return from_arrays(options.pop("name", "blobs"), train=(x, y), test=test, **options).digest

    assert digest() == digest(classes=3) == digest(examples=50)
    others = [{"change": change} for change in ("pixel", "label", "test")]
    others += [{"name": "others"}, {"classes": 4}, {"examples": 40}, {"scaling": "global"}]
    assert len({digest(), *(digest(**other) for other in others)}) == 1 + len(others)


X, Y = np.ones((4, 2)), np.arange(4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"train": X}, "train must be a pair (x, y), got ndarray"),
        ({"train": (np.ones(4), Y)}, "x of train must have one row of numbers per example, got shape (4,)"),
        ({"test": (np.ones((0, 2)), [])}, "x of test must have one row of numbers per example, got shape (0, 2)"),
        ({"train": (np.array([["a", "b"]]), [0])}, "x of train must hold real numbers, got dtype <U1"),
        ({"train": (X * 1j, Y)}, "x of train must hold real numbers, got dtype complex128"),
        ({"test": (X * np.nan, Y)}, "x of test must be finite in single precision, got NaN, inf or larger"),
        ({"train": (X * 1e39, Y)}, "x of train must be finite in single precision, got NaN, inf or larger"),
        ({"train": (X, Y / 2)}, "y of train must hold whole numbers, got dtype float64"),
        ({"train": (X, np.eye(4, dtype=int))}, "y of train must have one dimension, got shape (4, 4)"),
        ({"train": (X, Y - 1)}, "labels must be at least 0, got -1 in train"),
        ({"train": (X, Y[:3])}, "train must have one label per example, got 4 rows and 3 labels"),
        ({"test": (np.ones((4, 3)), Y)}, "train and test must have equally many numbers per example, got 2 and 3"),
        ({"classes": 3}, "labels must be less than classes=3, got the label 3"),
        ({"classes": 0}, "classes must be at least 1, got classes=0"),
    ],
)
def test_unusable_arrays_are_refused_in_one_sentence(wrong: dict, message: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        from_arrays("wrong", **{"train": (X, Y), "test": (X, Y)} | wrong)
    assert str(caught.value) == f"from_arrays: {message}"


# The cache


@pytest.fixture
def loads(monkeypatch) -> list[tuple]:
    """The arguments of every load that is not answered from a cache."""
    calls, load = [], data.load

    def counted(name: str, **options) -> Dataset:
        calls.append((name, *options.values()))
        return load(name, **options)

    monkeypatch.setattr(catalogue, "load", counted)
    return calls


def test_each_data_set_is_loaded_once_per_number_of_examples_and_scaling(loads: list) -> None:
    datasets = Datasets()
    for _ in range(2):
        assert datasets.load("digits", scaling="none").train.frames.min() == 0  # as a check that the data exist does
        assert len(datasets.load("digits", 100).train) == 100
        assert len(datasets.load("digits", examples=100, scaling="global").train) == 100
    assert loads == [("digits", None, "none"), ("digits", 100, "dimension"), ("digits", 100, "global")]
    Datasets().load("digits", 100)
    assert len(loads) == 4


@pytest.mark.usefixtures("cache")
def test_a_missing_data_set_is_searched_for_once(loads: list) -> None:
    datasets, messages = Datasets(), []
    for examples in (None, 100):
        with pytest.raises(FileNotFoundError, match=r"^data: TIMIT is not in") as caught:
            datasets.load("timit", examples)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert len(loads) == 1

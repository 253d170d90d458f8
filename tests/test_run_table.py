"""The tables of sweeps behind Figures 3 and 4: one row per run, or per epoch."""

import numpy as np
import pytest
from helpers.synthetic_runs import DATASETS, DIGITS, EXAMPLES, HELD_OUT, by_run, result
from sklearn.decomposition import PCA

from gradwalk.figures import (
    by_epoch,
)
from gradwalk.figures.outcomes import clipping


def test_one_row_per_run_records_how_it_ended() -> None:
    shown = by_run(
        result([50, 20, 30], depth=4, gain=1.1, seed=3),
        result([50, 40], diverged=3, depth=8, gain=1.2),
        result([], status="failed", depth=8, gain=1.3),
    )
    assert shown["status"].tolist() == ["done", "diverged", "failed"]
    np.testing.assert_array_equal(shown["train_error"], [0.03, np.nan, np.nan])
    np.testing.assert_array_equal(shown["train_mistakes"], [30, np.nan, np.nan])
    np.testing.assert_array_equal(shown["test_error"], [6 / HELD_OUT, np.nan, np.nan])
    np.testing.assert_array_equal(shown["lowest_error"], [0.02, 0.04, np.nan])
    np.testing.assert_array_equal(shown["diverged"], [np.nan, 3, np.nan])
    np.testing.assert_array_equal(shown["epoch"], [3, 2, 0])
    np.testing.assert_array_equal(shown["clipped"], [3, 2, 0])
    np.testing.assert_array_equal(shown["depth"], [4, 8, 8])
    np.testing.assert_array_equal(shown["gain"], [1.1, 1.2, 1.3])
    np.testing.assert_array_equal(shown["seed"], [3, 0, 0])
    assert shown["width"][0] == result([], depth=4).run.architecture(DIGITS).widths[1]


def test_a_row_records_how_the_run_was_trained() -> None:
    settings = {
        "optimizer": "momentum(0.8)",
        "weight_decay": 1e-4,
        "clip": None,
        "decay": 0.9,
        "epochs": 7,
        "batch": 50,
    }
    shown = by_run(result([50, 20, 30], depth=4, gain=1.1, gain_in=None, **settings), result([1], depth=4, gain=1.1))
    assert shown["optimizer"].tolist() == ["momentum(0.8)", "sgd"]
    np.testing.assert_array_equal(shown["weight_decay"], [1e-4, 0])
    np.testing.assert_array_equal(shown["gain_in"], [1.1, 1.0])  # g in every layer, and the default
    np.testing.assert_array_equal(shown["clip"], [np.nan, 10.0])
    np.testing.assert_array_equal(shown["decay"], [0.9, 0.995])
    np.testing.assert_array_equal(shown["epochs"], [7, result([], depth=4).run.epochs])
    np.testing.assert_array_equal(shown["batch"], [50, 100])


def test_clipped_steps_are_recorded_in_all_epochs_the_first_and_the_last() -> None:
    shown = by_run(
        result([50, 20, 30], clipped=(9, 4, 2), depth=4, gain=1.1), result([], diverged=1, depth=4, gain=1.2)
    )
    np.testing.assert_array_equal(shown["clipped"], [15, 0])
    np.testing.assert_array_equal(shown["clipped_first"], [9, np.nan])
    np.testing.assert_array_equal(shown["clipped_last"], [2, np.nan])


def test_the_share_of_clipped_steps_is_reported() -> None:
    results = [
        result([50, 20], clipped=(3, 3), depth=4, gain=1.1),
        result([1, 1], clipped=(0, 0), depth=8, gain=1.1),
    ]
    steps = -(-len(DIGITS.train) // 100)
    words = f"{100 * 6 / (4 * steps):.2g} % of the steps, in 50 % of the runs"
    assert clipping(by_run(*results).frame) == clipping(by_epoch(results, DATASETS).frame) == words


def test_the_error_of_pca_is_that_of_its_reconstruction() -> None:
    shown = by_run(result([0.5], task="reconstruct", depth=4, gain=1.1))
    inputs = DIGITS.train.inputs(np.arange(len(DIGITS.train))).astype(float)
    rest = PCA(30).fit(inputs)
    error = float(np.mean((inputs - rest.inverse_transform(rest.transform(inputs))) ** 2))
    assert shown["pca_error"][0] == pytest.approx(error, rel=1e-4)
    assert np.isnan(by_run(result([5], depth=4))["pca_error"][0])


def test_a_reconstruction_has_an_error_and_no_mistakes() -> None:
    shown = by_run(result([0.5, 0.25], task="reconstruct", depth=4, gain=1.1))
    assert (shown["train_error"][0], shown["test_error"][0], shown["lowest_error"][0]) == (0.25, 0.5, 0.25)
    assert np.isnan(shown["train_mistakes"][0])


def test_a_gain_that_is_not_given_is_recorded_as_computed() -> None:
    shown = by_run(result([5], depth=4, activation="relu"))
    run = result([], depth=4, activation="relu").run
    assert shown["gain"][0] == run.gains(run.architecture(DIGITS).widths).gain > 1.4


def test_one_row_per_epoch_ends_where_the_run_diverged() -> None:
    results = [result([9, 4], depth=4, gain=1.0), result([8], diverged=2, depth=4, gain=1.1)]
    shown = by_epoch(results, DATASETS)
    np.testing.assert_array_equal(shown["epoch"], [1, 2, 1, 2])
    np.testing.assert_array_equal(shown["train_error"], [0.009, 0.004, 0.008, np.nan])
    assert shown["status"].tolist() == ["done", "done", "diverged", "diverged"]


def test_the_error_of_a_constant_answer_is_in_the_table() -> None:
    split = DIGITS.train
    shown = by_run(result([5], depth=4, gain=1.0), result([0.5], task="reconstruct", depth=4, gain=1.0))
    mistakes = min(int((split.labels != label).sum()) for label in range(10))
    moving = int((split.frames.std(axis=0) > 0).sum())  # pixels that are the same everywhere have no variance
    np.testing.assert_allclose(shown["constant_error"], [mistakes / EXAMPLES, moving / 64], rtol=1e-5)

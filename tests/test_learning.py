"""Very deep networks learn at the right gain, and do not at the wrong one."""

import contextlib
import os
from pathlib import Path

import numpy as np
import pytest

from gradwalk import data as data_sets
from gradwalk.train import Run, Watcher, train


@pytest.fixture(scope="module")
def digits():
    return data_sets.load("digits")


@pytest.fixture
def real_data(tmp_path, monkeypatch):
    """Let the loaders read the real data sets, and write converted ones elsewhere."""
    given = os.environ.get("GRADWALK_DATA")
    if given is None:
        pytest.skip("GRADWALK_DATA is not set to a folder with real data")
    for each in Path(given).iterdir():
        (tmp_path / each.name).symlink_to(each)
    monkeypatch.setenv("GRADWALK_DATA", str(tmp_path))
    return tmp_path


def deep(activation, **changes):
    settings = {"data": "digits", "activation": activation, "depth": 64, "params": 3e5, "epochs": 400}
    return Run(**(settings | {"stop_at_zero": True} | changes))


class UntilZero(Watcher):
    """Stops training as soon as one network of the stack makes no mistake."""

    def __init__(self):
        self.reached = None

    def ended(self, outcome):
        if outcome.last.train_mistakes == 0:
            self.reached = outcome
            raise KeyboardInterrupt


def first_without_mistakes(runs, data):
    """Return the first run that ends without mistakes, or None.

    Of several seeds, because the last example can take hundreds of epochs, and which seed is spared that depends on
    the last bits of the machine's matrix products.
    """
    watcher = UntilZero()
    with contextlib.suppress(KeyboardInterrupt):
        train(runs, data, watcher=watcher)
    return watcher.reached


def test_64_tanh_layers_learn_without_a_mistake_at_the_right_gain():
    few = {"examples": 200, "params": None, "width": 60, "rate_in": 0.02, "rate_out": 0.02, "measure_every": 5}
    runs = [deep("tanh", seed=seed, **few) for seed in range(1, 4)]
    assert first_without_mistakes(runs, data_sets.load("digits", examples=200)) is not None


def test_64_relu_layers_learn_at_the_right_gain_and_stay_at_chance_at_gain_1(digits):
    settings = {"params": None, "width": 60, "epochs": 8, "measure_every": 8}
    settings |= {"optimizer": "adam", "rate_in": 1e-3, "rate_out": 1e-3}  # sgd takes four times as many steps
    runs = [deep("relu", seed=seed, **settings) for seed in range(1, 4)]
    *right, at_1 = train([*runs, deep("relu", gain=1.0, **settings)], digits)
    commonest = np.bincount(digits.train.labels).max()
    assert at_1.last.train_mistakes >= len(digits.train) - commonest  # no better than one answer for all
    assert np.median([outcome.last.train_mistakes for outcome in right]) < 0.75 * len(digits.train)


def test_an_autoencoder_of_16_layers_learns_to_reconstruct():
    digits = data_sets.load("digits", scaling="global")
    settings = {"data": "digits", "scaling": "global", "task": "reconstruct", "depth": 16, "params": 5e4}
    (outcome,) = train([Run(**settings, gain=1.1, rate_in=1.0, rate_out=1.0, epochs=40, measure_every=40)], digits)
    constant = digits.train.frames.var(axis=0).mean()  # the error of the mean image, whatever the input
    assert outcome.last.train_loss < 0.3 * constant
    assert outcome.last.test_loss < 0.4 * constant


def test_16_layers_are_well_below_the_commonest_phone_on_the_real_timit_sample(real_data):
    if not (real_data / "timit_sample.tar.gz").exists():
        pytest.skip("there is no TIMIT sample in GRADWALK_DATA")
    timit = data_sets.load("timit", examples=5_000)
    settings = {"data": "timit", "examples": 5_000, "depth": 16, "params": 2e5, "gain": 1.15}
    (outcome,) = train([Run(**settings, rate_in=0.1, rate_out=0.1, epochs=6, measure_every=6)], timit)
    commonest = [np.bincount(split.labels).max() / len(split) for split in (timit.train, timit.test)]
    assert outcome.last.train_mistakes / len(timit.train) < 0.75 * (1 - commonest[0])
    assert outcome.last.test_mistakes / len(timit.test) < 0.85 * (1 - commonest[1])

"""Examples gather their context, and are standardised by what is trained on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwalk import data
from gradwalk.data.examples import Examples, standardise


def naive_inputs(frames, centres, bounds, context, row):
    """One example, frame by frame."""
    first, last = bounds[row]
    return np.concatenate(
        [frames[min(max(frame, first), last)] for frame in range(centres[row] - context, centres[row] + context + 1)]
    )


@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    context=st.integers(0, 8),
    features=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_context_is_gathered_within_the_utterance_and_repeated_at_its_edges(lengths, context, features, seed) -> None:
    rng, ends = np.random.default_rng(seed), np.cumsum(lengths)
    frames = rng.standard_normal((ends[-1], features), dtype=np.float32)
    every = np.repeat(np.stack([ends - lengths, ends - 1], axis=1), lengths, axis=0)
    centres = np.flatnonzero(rng.random(ends[-1]) < 0.7)
    bounds = every[centres]
    examples = Examples(frames, np.zeros(len(centres), np.int64), context, centres, bounds)
    rows = rng.integers(0, len(centres), 7) if len(centres) else np.empty(0, np.int64)
    got = examples.inputs(rows)
    assert got.shape == (len(rows), examples.width) == (len(rows), (2 * context + 1) * features)
    assert got.dtype == np.float32
    for row, values in zip(rows, got, strict=True):
        np.testing.assert_array_equal(values, naive_inputs(frames, centres, bounds, context, row))


def test_the_first_examples_are_the_same_with_and_without_the_rest() -> None:
    rng = np.random.default_rng(0)
    frames, labels = rng.standard_normal((20, 3), dtype=np.float32), np.arange(20)
    bounds = np.repeat([[0, 9], [10, 19]], 10, axis=0)
    whole = (
        Examples(frames, labels),
        Examples(frames, labels, context=2),
        Examples(frames, labels[::-1].copy(), 2, labels[::-1].copy(), bounds[::-1].copy()),
    )
    for examples in whole:
        few = examples.first(12)
        assert (len(few), few.width) == (12, examples.width)
        np.testing.assert_array_equal(few.labels, examples.labels[:12])
        np.testing.assert_array_equal(few.inputs(np.arange(12)), examples.inputs(np.arange(12)))


def test_there_is_one_frame_and_one_label_per_example() -> None:
    with pytest.raises(ValueError, match=r"^Examples: there must be one frame and one label per example, got 3 and 2"):
        Examples(np.zeros((3, 2), np.float32), np.zeros(2, np.int64))
    with pytest.raises(ValueError, match=r"^Examples: bounds must have shape \(3, 2\), got \(2, 2\)"):
        Examples(np.zeros((3, 2), np.float32), np.zeros(3, np.int64), bounds=np.zeros((2, 2), np.int64))


def halves(frames: np.ndarray, split: int = 100) -> tuple[Examples, Examples]:
    frames = frames.astype(np.float32)
    return tuple(Examples(part, np.zeros(len(part), np.int64)) for part in (frames[:split], frames[split:]))


def test_each_dimension_is_standardised_by_its_mean_and_variance_in_training() -> None:
    rng = np.random.default_rng(1)
    raw = rng.standard_normal((150, 4)) * [1, 5, 0.01, 300] + [0, -7, 1000, 3]
    train, test = standardise("toy", *halves(raw))
    np.testing.assert_allclose(train.frames.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(train.frames.var(axis=0), 1, rtol=1e-6)
    before = raw.astype(np.float32).astype(float)
    expected = (before[100:] - before[:100].mean(axis=0)) / before[:100].std(axis=0)
    np.testing.assert_allclose(test.frames, expected, rtol=1e-5)


@pytest.mark.parametrize("scaling", ["dimension", "global"])
def test_a_dimension_that_is_constant_in_training_is_0_in_both_splits(scaling: str) -> None:
    raw = np.random.default_rng(1).standard_normal((150, 3))
    raw[:, 1] = 0.1
    raw[120, 1] = 9.0
    train, test = standardise("toy", *halves(raw), scaling)
    assert (train.frames[:, 1] == 0).all()
    assert (test.frames[:, 1] == 0).all()


def test_one_global_scale_keeps_the_dimensions_in_proportion() -> None:
    raw = np.random.default_rng(1).standard_normal((150, 2)) * [1, 10] + 4
    train, _ = standardise("toy", *halves(raw), "global")
    assert train.frames.var(axis=0).mean() == pytest.approx(1, rel=1e-4)
    before, after = raw[:100].std(axis=0), train.frames.std(axis=0)
    assert after[1] / after[0] == pytest.approx(before[1] / before[0], rel=1e-4)
    np.testing.assert_allclose(train.frames.mean(axis=0), 0, atol=1e-5)


def test_scaling_none_changes_nothing() -> None:
    train, test = halves(np.random.default_rng(1).standard_normal((150, 2)))
    same = standardise("toy", train, test, "none")
    np.testing.assert_array_equal(same[0].frames, train.frames)
    np.testing.assert_array_equal(same[1].frames, test.frames)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [3, 120])
@pytest.mark.parametrize("scaling", data.SCALINGS)
def test_numbers_that_are_not_finite_are_refused_in_one_sentence(bad: float, row: int, scaling: str) -> None:
    raw = np.zeros((150, 2))
    raw[row, 1] = bad
    with pytest.raises(ValueError, match=r"^data: toy must hold finite numbers, got NaN or inf$"):
        standardise("toy", *halves(raw), scaling)

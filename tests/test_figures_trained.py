"""Figures 3 and 4: the numbers that bear on the claims, and the pictures."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from helpers.synthetic_runs import DATASETS, EXAMPLES, HELD_OUT, by_run, result, runs
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from pandas.testing import assert_frame_equal

from gradwalk.figures import (
    Table,
    by_epoch,
    error_axis,
    error_by_depth,
    fig3,
    fig4a,
    fig4b,
    fig4c,
    fig4d,
    outcomes,
    table,
)
from gradwalk.figures.outcomes import Schedule


def points(panel: Axes) -> list[tuple[float, float, str]]:
    """Return x, y and colour of everything drawn with a marker."""
    return [
        (round(float(x), 6), round(float(y), 9), to_hex(line.get_color()))
        for line in marked(panel)
        for x, y in line.get_xydata()
    ]


def marked(panel: Axes) -> list[Line2D]:
    return [line for line in panel.get_lines() if line.get_marker() not in ("None", "", None)]


def guides(panel: Axes) -> dict[str, float]:
    """Return the heights of the dotted lines across the panel, by their labels."""
    levels = [float(line.get_ydata()[0]) for line in panel.get_lines() if line.get_linestyle() == ":"]
    named = {text.get_text(): text.xy[1] for text in panel.texts if re.match("0 mistakes|diverged", text.get_text())}
    assert not named or sorted(named.values()) == sorted(levels)
    return named


# Numbers


def test_the_mean_over_g_leaves_diverged_runs_out_and_counts_them() -> None:
    shown = by_run(
        *runs(lambda gain, **_: {1.0: 10, 1.1: 30, 1.2: None}[gain], depth=[4], gain=[1.0, 1.1, 1.2]),
        *runs(lambda **_: None, depth=[8], gain=[1.0, 1.1]),
    )
    mean = outcomes.averages(shown.frame)
    np.testing.assert_array_equal(mean["depth"], [4, 8])
    np.testing.assert_allclose(mean["train_error"], [0.02, np.nan])
    np.testing.assert_array_equal(mean["runs"], [3, 2])
    np.testing.assert_array_equal(mean["diverged"], [1, 2])
    assert outcomes.dependable(mean).empty


def test_of_equal_errors_the_smaller_loss_is_the_best_and_diverged_runs_never_are() -> None:
    shown = by_run(*(result([5], depth=4, gain=gain) for gain in (1.0, 1.1, 1.2)), result([], 1, depth=4, gain=1.3))
    frame = shown.frame.assign(train_loss=[0.3, 0.1, 0.2, np.nan])
    assert outcomes.best(frame)["gain"] == 1.1
    assert outcomes.best(frame[frame["gain"] == 1.3]) is None


def test_no_mistakes_count_as_half_a_mistake_in_a_ratio() -> None:
    assert outcomes.ratio(0.0, 0.0, 100) == 1
    assert outcomes.ratio(0.02, 0.0, 100) == 4
    assert outcomes.ratio(0.5, 0.25, None) == 2
    assert np.isnan(outcomes.ratio(np.nan, 0.1, 100))


@pytest.fixture(scope="module")
def gains() -> Table:
    """tanh is best at 1.2 for D = 4 and at 1.5 for D = 16; ReLU at 1.4. D = 16 diverges at g = 1.8 and the large rate.

    The small rate makes 100 mistakes more, and tanh at its best with D = 4 makes none.
    """

    def mistakes(activation: str, depth: int, gain: float, rate_in: float) -> float | None:
        if depth == 16 and gain == 1.8 and rate_in == 0.1:
            return None
        middle = 1.4 if activation == "relu" else 1.2 if depth == 4 else 1.5
        least = 0 if (activation, depth) == ("tanh", 4) else depth
        return least + 1000 * abs(gain - middle) + 100 * (rate_in < 0.1)

    grid = {"activation": ["relu", "tanh"], "depth": [16, 4], "gain": [1.0, 1.2, 1.4, 1.5, 1.8], "rate_in": [0.1, 0.01]}
    return by_run(*runs(mistakes, **grid), result([], status="failed", depth=4, gain=1.0))


def test_figure_3_finds_the_best_gain_of_each_depth(gains: Table) -> None:
    tanh, relu = (fig3.gain_ranges(gains)[name] for name in ("tanh", "relu"))
    assert [(best.depth, best.gain) for best in tanh.depths] == [(4, 1.2), (16, 1.5)]
    assert [(best.depth, best.gain) for best in relu.depths] == [(4, 1.4), (16, 1.4)]
    assert [best.error for best in tanh.depths] == [0, 0.016]
    assert (tanh.share_inside, relu.share_inside) == (0.5, 1.0)
    assert (tanh.inside, relu.inside) == (1, 2)
    assert tanh.depths[0].error_at_1 == 0.2
    assert relu.depths[1].error_at_1 == 0.416
    # Within 1.1 to 1.4 there are g = 1.2 and 1.4 at two depths; only D = 4, g = 1.2 reaches 1 %.
    assert (tanh.near_zero, relu.near_zero) == (0.25, 0.25)


def test_the_summary_of_figure_3_has_the_best_gains(gains: Table) -> None:
    lines = dict(fig3.summary(gains))
    assert lines["tanh, D = 4: best g"] == "1.2: 0.00 % (0 mistakes)"
    assert lines["tanh, D = 4: at g = 1"] == "20.00 % (200 mistakes)"
    assert lines["ReLU: best g in 1.4 to 1.55"] == "100 % of depths"
    assert lines["runs"] == "41: 38 done, 2 diverged, 1 failed"
    assert lines["error of a constant answer"].startswith("8")
    assert lines["data"] == f"digits: 1,000 to train on, {HELD_OUT} held out"


@pytest.fixture(scope="module")
def depths() -> Table:
    """D = 2 has 10 mistakes on the mean over g, D = 16 has 16, D = 32 has 64 with equal rates and 32 without.

    D = 2 has none with the larger rates, but one g diverges there. At D = 32 both large rates diverge for every g.
    """

    def mistakes(depth: int, gain: float, rate_in: float, rate_out: float) -> float | None:
        large = rate_in + rate_out > 0.15
        if (depth, large) == (2, True):
            return None if gain == 1.2 else 0
        if depth == 32 and large:
            return None
        best = {2: 10, 16: 16, 32: 64 if rate_in == rate_out else 32}[depth]
        return best + (5 if gain == 1.2 else -5) + 100 * (depth == 2 and rate_in != rate_out)

    return by_run(*runs(mistakes, depth=[2, 16, 32], gain=[1.05, 1.2], rate_in=[0.01, 0.1], rate_out=[0.01, 0.1]))


def test_figure_4_finds_the_best_depth_and_what_the_schedule_is_worth(depths: Table) -> None:
    found = error_by_depth.errors_by_depth(depths)
    assert found.errors == pytest.approx({2: 0.010, 16: 0.016, 32: 0.032})
    assert found.run_errors == pytest.approx({2: 0.0, 16: 0.011, 32: 0.027})
    assert (found.best_depth, found.deepest) == (2, 32)
    assert found.ratio(16, 2) == pytest.approx(1.6)
    assert found.ratio(32, 2) == pytest.approx(3.2)
    assert (found.schedule.equal, found.schedule.unequal) == pytest.approx((0.064, 0.032))
    assert found.schedule.ratio == pytest.approx(2)
    assert found.near_zero == pytest.approx(1 / 3)


def test_figure_4d_compares_depths_16_and_32(depths: Table) -> None:
    assert ("error of D = 32 over D = 16", "2") in fig4d.summary(depths)
    shallow = Table(depths.frame[depths["depth"] < 32])
    assert np.isnan(error_by_depth.errors_by_depth(shallow).ratio(32, 16))


def test_figure_4b_compares_the_deepest_with_the_shallowest() -> None:
    errors = {4: 0.1, 8: 0.05, 16: 0.25}
    results = [
        result([errors[depth] * gain], task="reconstruct", depth=depth, gain=gain)
        for depth in errors
        for gain in (0.5, 1.5)
    ]
    shown = by_run(*results)
    found = error_by_depth.errors_by_depth(shown)
    assert found.best_depth == 8
    assert found.ratio(16, 8) == pytest.approx(5)
    assert ("error of D = 16 over D = 4", "2.5") in fig4b.summary(shown)


def test_figures_4_of_which_every_run_diverged_have_no_best_depth() -> None:
    shown = by_run(*runs(lambda **_: None, depth=[4, 8], gain=[1.0]))
    found = error_by_depth.errors_by_depth(shown)
    assert found.best_depth is None
    assert ("best depth", "none") in fig4a.summary(shown)
    assert np.isnan(found.schedule.ratio)


@pytest.fixture(scope="module")
def epochs() -> Table:
    results = [
        result([500, 30, 40], depth=1000, params=2e6, gain=1.05, rate_in=0.1, rate_out=0.1),
        result([400, 60, 20], depth=1000, params=2e6, gain=1.05, rate_in=0.01, rate_out=0.1),
        result([300, 0, 35], depth=1000, params=2e6, gain=1.05, rate_in=0.01, rate_out=0.01, weights="orthogonal"),
        result([800], diverged=2, depth=1000, params=2e6, gain=1.05, rate_in=0.1, rate_out=0.01),
    ]
    return by_epoch(results, DATASETS)


def test_figure_4c_counts_the_mistakes_of_the_best_run_at_its_end(epochs: Table) -> None:
    found = fig4c.deep_runs(epochs)
    assert (found.best["train_mistakes"], found.best["train_error"]) == (20, 0.02)
    assert (found.best["rate_in"], found.best["rate_out"]) == (0.01, 0.1)
    assert found.mistakes == {"gaussian": 20, "orthogonal": 35}
    assert found.lowest == {"gaussian": 20, "orthogonal": 0}
    assert found.schedule == Schedule(0.035, 0.02, EXAMPLES)
    assert (found.depth, found.width) == (1000, epochs["width"][0])
    lines = dict(fig4c.summary(epochs))
    assert lines["best run"] == "2.00 % (20 mistakes)"
    assert lines["least after any epoch"] == "0 mistakes"
    assert lines["runs"] == "4: 3 done, 1 diverged"


# Pictures


def test_figure_3_shows_every_run_above_and_the_least_below(gains: Table) -> None:
    panels = fig3.draw(gains).axes
    assert [panel.get_title() for panel in panels] == ["tanh", "ReLU", "", ""]
    shades = error_axis.shades([4, 16])
    for name, upper, lower in zip(("tanh", "relu"), panels[:2], panels[2:], strict=True):
        rows = outcomes.finished(gains.where(activation=name))
        assert len(points(upper)) == len(rows) == 20
        for depth in (4, 16):
            shown = {x: y for x, y, colour in points(lower) if colour == shades[depth]}
            least = rows[rows["depth"] == depth].groupby("gain")["train_error"].min()
            assert shown == pytest.approx({gain: error or 0.0005 for gain, error in least.items()})
        assert upper.get_yscale() == lower.get_yscale() == "log"
        assert lower.get_xlabel() == "g"
    legend = fig3.draw(gains).legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["4", "16"]
    assert len({line.get_color() for line in legend.get_lines()}) == 2


def test_figure_3_marks_what_a_log_axis_cannot_show(gains: Table) -> None:
    figure = fig3.draw(gains)
    left, right = figure.axes[:2]
    assert guides(right) == {"0 mistakes": 0.0005, "diverged": 2.0}
    dark = error_axis.shades([4, 16])[4]
    light = error_axis.shades([4, 16])[16]
    assert {(y, colour) for _, y, colour in points(left) if y in (0.0005, 2.0)} == {(0.0005, dark), (2.0, light)}
    low, high = left.get_ylim()
    assert low < 0.0005
    assert high > 2.0


def test_a_picture_without_such_runs_has_no_such_lines() -> None:
    shown = by_run(*runs(lambda gain, **_: 50 * gain, depth=[4], gain=[1.0, 1.2]))
    (upper, lower) = fig3.draw(shown).axes
    assert guides(upper) == guides(lower) == {}


def test_all_that_is_drawn_lies_within_the_axes() -> None:
    few = {"depth": [4, 8], "gain": [1.0, 1.2]}
    for mistakes in (lambda depth, **_: 0 if depth == 4 else 900, lambda depth, **_: None if depth == 4 else 3):
        shown = by_run(*runs(mistakes, **few))
        for panel in (*fig3.draw(shown).axes, *fig4a.draw(shown).axes):
            low, high = panel.get_ylim()
            assert all(low < y < high for _, y, _ in points(panel))


def test_figure_4_is_log2_against_log10_with_a_colour_and_a_marker_per_rate(depths: Table) -> None:
    figure = fig4a.draw(depths)
    (panel,) = figure.axes
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "log")
    assert panel.xaxis.get_transform().base == 2
    assert [text.get_text() for text in panel.get_xticklabels()] == ["2", "16", "32"]
    assert panel.get_title() == "digits, classification, mean over g = 1.05, 1.2"
    looks = {(to_hex(line.get_color()), line.get_marker()) for line in marked(panel)}
    assert looks == set(itertools.product(error_axis.shades([0.01, 0.1]).values(), "os"))
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert [texts[0], *texts[1:3]] == [r"$\lambda_{out}$ (colour)", "0.01", "0.1"]
    assert [texts[3], *texts[4:6]] == [r"$\lambda_{in}$ (marker)", "0.01", "0.1"]


def test_figure_4_draws_the_mean_over_g_and_shows_what_diverged(depths: Table) -> None:
    (panel,) = fig4a.draw(depths).axes
    assert guides(panel) == {"0 mistakes": 0.0005, "diverged": 2.0}
    heights = sorted(y for _, y, _ in points(panel))
    assert heights == pytest.approx(sorted([0.0005, 0.01, 0.11, 0.11, *[0.016] * 4, 0.064, 0.032, 0.032, 2.0]))
    hollow = [line for line in marked(panel) if line.get_markerfacecolor() == "none" and len(line.get_xdata())]
    assert [line.get_ydata().tolist() for line in hollow] == [
        [0.0005]
    ]  # D = 2 at the large rates, where one g diverged
    assert "hollow: some\ng diverged" in [text.get_text() for text in fig4a.draw(depths).legends[0].get_texts()]


def test_figure_4_with_many_rates_has_its_points_beside_their_depths_and_its_legend_within_the_picture() -> None:
    rates = {4: 0.1, 8: 0.05, 16: 0.02, 32: 0.01}
    each = [
        runs(lambda **_: 50, depth=[depth], gain=[1.1], rate_in=[rate * 1.3**k], rate_out=[rate * 1.3**k])
        for depth, rate in rates.items()
        for k in range(6)
    ]
    figure = fig4a.draw(by_run(*itertools.chain(*each)))
    drawn = [x for x, *_ in points(figure.axes[0])]
    assert len(drawn) == 24
    assert all(min(abs(np.log2(x / depth)) for depth in rates) < 0.2 for x in drawn)
    figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    assert legend.y0 >= 0
    assert legend.y1 <= figure.bbox.height


def test_figure_4b_names_its_unit() -> None:
    shown = by_run(result([0.5], task="reconstruct", depth=4, gain=1.1), result([], 1, task="reconstruct", depth=8))
    (panel,) = fig4b.draw(shown).axes
    assert panel.get_ylabel() == "training error (mean squared error)"
    assert guides(panel) == {"diverged,\nor > 10": 2.0}


def test_a_reconstruction_error_that_is_absurd_lies_with_the_diverged() -> None:
    errors = {4: 1, 8: 8, 16: 130}
    shown = by_run(*(result([errors[depth]], task="reconstruct", depth=depth, gain=1.1) for depth in errors))
    (panel,) = fig4b.draw(shown).axes
    assert sorted(y for _, y, _ in points(panel)) == [1, 8, 16]
    assert guides(panel) == {"diverged,\nor > 10": 16}


def test_figure_4c_draws_one_curve_per_run_that_ends_above_if_it_diverged(epochs: Table) -> None:
    figure = fig4c.draw(epochs)
    (panel,) = figure.axes
    assert guides(panel) == {"0 mistakes": 0.0005, "diverged": 2.0}
    drawn = sorted(line.get_xydata().tolist() for line in marked(panel))
    assert drawn == sorted(
        [
            [[1, 0.5], [2, 0.03], [3, 0.04]],
            [[1, 0.4], [2, 0.06], [3, 0.02]],
            [[1, 0.3], [2, 0.0005], [3, 0.035]],
            [[1, 0.8], [2, 2.0]],
        ]
    )
    styles = [line.get_linestyle() for line in marked(panel)]
    assert sorted(styles) == ["-", "-", "-", "--"]  # the orthogonal run is dashed
    assert (panel.get_xscale(), panel.get_yscale(), panel.get_xlabel()) == ("linear", "log", "epoch")


@pytest.mark.parametrize(("module", "name"), [(fig3, "gains"), (fig4a, "depths"), (fig4c, "epochs"), (fig4d, "depths")])
def test_a_trained_figure_redraws_from_its_csv_alone(module, name: str, tmp_path: Path, request) -> None:
    computed = request.getfixturevalue(name)
    table.write(computed, tmp_path / "data.csv")
    again = table.read(tmp_path / "data.csv")
    assert_frame_equal(again.frame, computed.frame, check_exact=True)
    assert [points(panel) for panel in module.draw(again).axes] == [
        points(panel) for panel in module.draw(computed).axes
    ]
    assert module.summary(again) == module.summary(computed)


def test_depths_look_the_same_in_all_panels_and_are_all_in_the_legend() -> None:
    shallow = runs(lambda **_: 50, activation=["tanh"], depth=[2, 4], gain=[1.0, 1.1])
    deep = runs(lambda **_: 60, activation=["relu"], depth=[4, 8], gain=[1.0, 1.1])
    figure = fig3.draw(by_run(*shallow, *deep))
    shades = error_axis.shades([2, 4, 8])
    for lower, depths in ((figure.axes[2], (2, 4)), (figure.axes[3], (4, 8))):
        assert {colour for *_, colour in points(lower)} == {shades[depth] for depth in depths}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["2", "4", "8"]

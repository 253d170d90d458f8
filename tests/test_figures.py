"""The tables of Figures 1 and 2 bear out the paper's claims, and the pictures show them."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from pandas.testing import assert_frame_equal

from gradwalk import figures
from gradwalk.figures import FIGURES, Table, fig1, fig2, table
from gradwalk.figures.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, canvas
from gradwalk.figures.error_axis import levels, mark, plain_ticks, shades

RESULTS = Path(__file__).parents[1] / "results"
TABLES = [path for path in sorted(RESULTS.rglob("*.csv")) if path.stem in FIGURES]


@pytest.fixture(scope="module")
def walks() -> Table:
    return fig1.compute(3, width=40, depth=100, walks=400, shown=20)


@pytest.fixture(scope="module")
def gains() -> Table:
    return fig2.compute(5, widths=(10, 30, 100), narrow=(6,), points=7, width=100, depth=200, walks=(60, 60))


def lines(panel: Axes, color: str) -> list[tuple[object, str]]:
    """Return the height and the style of the horizontal lines of that colour across the panel."""
    return [
        (line.get_ydata()[0], line.get_linestyle())
        for line in panel.get_lines()
        if to_hex(line.get_color()).upper() == color and len(line.get_xdata()) == 2
    ]


def drawn(figure: Figure) -> list[np.ndarray]:
    return [line.get_xydata() for panel in figure.axes for line in panel.get_lines()]


@pytest.mark.parametrize(("module", "data"), [(fig1, "walks"), (fig2, "gains")])
def test_a_figure_redraws_from_its_csv_alone(module, data, tmp_path: Path, request, monkeypatch) -> None:
    computed = request.getfixturevalue(data)
    table.write(computed, tmp_path / "data.csv")
    again = table.read(tmp_path / "data.csv")
    assert again.facts == computed.facts
    assert_frame_equal(again.frame, computed.frame, check_exact=True)
    monkeypatch.setattr(module, "simulate", None)  # drawing must not simulate
    first, second = drawn(module.draw(computed)), drawn(module.draw(again))
    assert len(first) == len(second) > 3
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    assert module.summary(again) == module.summary(computed)


def test_the_csv_is_plain_numbers_under_named_columns(walks: Table, tmp_path: Path) -> None:
    table.write(walks, tmp_path / "data.csv")
    read = pd.read_csv(tmp_path / "data.csv", comment="#")
    np.testing.assert_allclose(read["variance"], walks["variance"], rtol=1e-15)


@pytest.mark.parametrize("path", TABLES, ids=lambda path: str(path.relative_to(RESULTS)))
def test_a_table_of_the_results_is_the_same_to_the_byte_when_written_again(path: Path, tmp_path: Path) -> None:
    table.write(table.read(path), tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == path.read_bytes()


def test_only_empty_cells_are_missing(tmp_path: Path) -> None:
    given = Table.of({"data": ["nan", "#1, a"], "error": [0.1, np.nan]}, {"seed": 3, "gain": 1e-05}, {"note": "a = b"})
    table.write(given, tmp_path / "data.csv")
    again = table.read(tmp_path / "data.csv")
    assert list(again["data"]) == ["nan", "#1, a"]
    np.testing.assert_array_equal(again["error"], [0.1, np.nan])
    assert (again.facts, again.made) == (given.facts, given.made)


def test_the_mean_of_the_linear_walk_stays_at_0(walks: Table) -> None:
    off = walks["mean"][1:] / walks["standard_error"][1:]
    assert np.abs(off).max() < 4


def test_the_variance_of_the_linear_walk_grows_as_predicted(walks: Table) -> None:
    exact = walks["exact"][-1] / walks.facts["depth"]
    assert abs(fig1.slope(walks) - exact) < 3 * fig1.slope_error(walks)
    assert fig1.slope_error(walks) < 0.1 * exact
    np.testing.assert_allclose(walks["printed"], walks["travelled"] / 80)  # d / (2 N), eq. 14
    np.testing.assert_allclose(walks["exact"], walks["printed"], rtol=0.03)


def test_figure_1_has_walks_a_mean_at_zero_and_both_variances(walks: Table) -> None:
    samples, mean, variance = fig1.draw(walks).axes
    assert len(samples.get_lines()) == 20
    assert "20 of 400 walks" in samples.get_title()
    assert (0.0, "-") in lines(mean, RED)
    assert len(mean.collections) == 1  # the band
    assert [text.get_text() for text in variance.get_legend().get_texts()] == [
        "± 2 s.e.",
        "variance over the walks",
        "d / (2N), eq. 14",
        "exact: d trigamma(N/2) / 4",
    ]
    assert len({line.get_linestyle() for line in variance.get_lines()}) == 3  # hue is not the only cue
    assert variance.get_xlabel() == "layers travelled back, d"


@pytest.mark.parametrize("name", ["linear", "relu"])
def test_the_best_gain_of_simulation_is_the_exact_one(gains: Table, name: str) -> None:
    rows = gains.where(panel="best", activation=name)
    assert list(rows["width"]) == [6, 10, 30, 100]
    assert (np.abs(rows["gain"] - rows["ours"]) < 3.5 * rows["gain_error"]).all()
    assert (np.abs(rows["printed"] / rows["ours"] - 1)[1:] < 0.01).all()
    assert (rows["gain_error"] < 0.02).all()


def test_below_10_units_the_printed_gain_of_relu_fails(gains: Table) -> None:
    narrow = gains.where(panel="best", activation="relu")
    assert narrow["width"][0] == 6
    assert abs(narrow["gain"][0] - narrow["printed"][0]) > 6 * narrow["gain_error"][0]
    assert list(gains.where(panel="best", activation="tanh")["width"]) == [10, 30, 100]


def test_the_best_gain_of_tanh_lies_between_linear_and_relu_at_width_100(gains: Table) -> None:
    linear, relu, tanh = (gains.where(panel="best", activation=name)["gain"][-1] for name in ("linear", "relu", "tanh"))
    assert linear < 1.1 < tanh < 1.3 < relu


def test_the_mean_rises_with_the_gain_and_is_0_at_the_predicted_one(gains: Table) -> None:
    for name in fig2.TITLES:
        rows = gains.where(panel="mean", activation=name)
        at = np.interp(rows["ours"][0], rows["gain"], rows["mean"])
        assert abs(at) < 3.5 * rows["mean_error"].max()
        assert rows["mean"][0] < -3
        assert rows["mean"][-1] > 3


def test_the_usable_range_is_widest_for_tanh(gains: Table) -> None:
    relative = {name: high / low - 1 for name in fig2.TITLES for low, high in [fig2.usable_gains(gains, name)]}
    assert relative["linear"] == pytest.approx(np.expm1(2 / 200), rel=0.5)  # the mean is 200 ln g plus a constant
    assert relative["tanh"] > 4 * max(relative["linear"], relative["relu"])


def test_a_range_that_the_points_do_not_reach_is_not_a_number() -> None:
    columns = {"panel": ["mean"] * 2, "activation": ["tanh"] * 2, "gain": [1.0, 2.0], "mean": [-0.5, 3.0]}
    low, high = fig2.usable_gains(Table.of(columns), "tanh")
    assert np.isnan(low)
    assert high == pytest.approx(1 + 1.5 / 3.5)


def test_figure_2_has_two_rows_of_three_panels(gains: Table) -> None:
    panels = fig2.draw(gains).axes
    assert [panel.get_title() for panel in panels] == ["linear", "ReLU", "tanh", "", "", ""]
    for upper in panels[:3]:
        assert upper.get_xscale() == "log"
    legends = [[text.get_text() for text in panel.get_legend().get_texts()] for panel in panels[:3]]
    assert [{"printed, eq. 13", "exact"} <= set(legend) for legend in legends] == [True, False, False]
    assert [{"printed, eq. 18", "exact"} <= set(legend) for legend in legends] == [False, True, False]
    assert all("simulated, ± 2 s.e." in legend for legend in legends)


def test_figure_2_has_guide_lines_and_an_arrow_at_each_predicted_gain(gains: Table) -> None:
    for name, panel in zip(fig2.TITLES, fig2.draw(gains).axes[3:], strict=True):
        assert sorted(lines(panel, GREEN)) == [(-1.0, "--"), (0.0, "-"), (1.0, "--")]
        rows = gains.where(panel="mean", activation=name)
        predicted = rows["ours" if name == "tanh" else "printed"][0]
        below, above, arrow = panel.texts
        assert (below.get_text(), above.get_text()) == ("÷ e", "× e")
        assert arrow.xy == (predicted, 0.0)
        assert arrow.arrow_patch is not None
        assert arrow.get_text().startswith({"linear": "eq. 13", "relu": "eq. 18", "tanh": "ours"}[name])


@pytest.mark.parametrize(
    ("errors", "shown"),
    [
        ((0.86, 0.89), ["86 %", "87 %", "88 %"]),
        ((0.05, 0.9), ["5 %", "10 %", "20 %", "50 %"]),
        ((1e-4, 0.9), ["0.01 %", "0.1 %", "1 %", "10 %"]),
    ],
)
def test_errors_are_labelled_in_per_cent_at_round_numbers(errors: tuple[float, float], shown: list[str]) -> None:
    figure, panels = canvas(1, 1, (5, 4))
    mark(panels[0, 0], levels(np.array(errors), 10_000))
    panels[0, 0].plot([0, 1], errors)
    plain_ticks(panels[0, 0], share=True)
    figure.draw_without_rendering()
    assert set(shown) <= {label.get_text() for label in panels[0, 0].get_yticklabels()}


def test_every_colour_stands_out_from_white() -> None:
    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return float(np.dot((0.2126, 0.7152, 0.0722), linear))

    for colour in (BLACK, GREY, RED, GREEN, BLUE, ORANGE, PURPLE, *shades(range(9)).values()):
        assert 1.05 / (luminance(colour) + 0.05) >= 3, colour


def test_the_summaries_agree_with_the_tables(walks: Table, gains: Table) -> None:
    first, second = dict(fig1.summary(walks)), dict(fig2.summary(gains))
    assert first["mean log-norm after 100 layers"].startswith(f"{walks['mean'][-1]:+.3f}")
    low, high = fig2.usable_gains(gains, "tanh")
    assert second["tanh: g with |mean| < 1"].startswith(f"{low:.4f} to {high:.4f}")
    assert second["tanh: N with best g in 1.1 to 1.3"] == "30 to 100"


def test_the_same_seed_gives_the_same_table_and_another_does_not() -> None:
    small = {"width": 5, "depth": 4, "walks": 10, "shown": 2}
    one, two, other = (fig1.compute(seed, **small)["mean"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, two)
    assert (one[1:] != other[1:]).all()


@pytest.mark.parametrize("ending", figures.ENDINGS)
def test_a_picture_is_the_same_to_the_byte(tmp_path: Path, ending: str) -> None:
    paths = [tmp_path / f"{name}{ending}" for name in ("a", "b")]
    for path in paths:
        figure, panels = figures.canvas(1, 1, (2, 2))
        panels[0, 0].plot([0, 1], [1, 0], label="a line")
        panels[0, 0].legend()
        figures.save(figure, [path])
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert len(paths[0].read_bytes()) > 3000
    assert b"Date" not in paths[0].read_bytes()  # two pictures drawn within a second would share it


def test_unknown_formats_and_figures_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^figures: a figure is written as \.png, \.pdf, \.svg, got 'a\.bmp'$"):
        figures.ending(Path("a.bmp"))
    with pytest.raises(ValueError, match=r"^there is no figure 'fig9'; did you mean 'fig\d"):
        FIGURES["fig9"]


def test_every_figure_is_simulated_or_trained_and_has_its_specs() -> None:
    for figure in FIGURES:
        assert figure.title
        assert figure.caption.endswith(".")
        assert figure.panels is not None
        if isinstance(figure, figures.SimulatedFigure):
            continue
        assert isinstance(figure, figures.TrainedFigure)
        assert figure.scales == (figures.SCALES if figure.in_paper else ("smoke", "quick", "laptop"))
    assert [figure.name for figure in FIGURES if not figure.in_paper and figure.name in ("fig1", "initialisers")] == [
        "initialisers"
    ]


def test_pyplot_is_never_loaded() -> None:
    code = """
import sys
from gradwalk.figures import fig1
fig1.draw(fig1.compute(0, width=5, depth=3, walks=5, shown=2))
assert "matplotlib.figure" in sys.modules
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)

"""Every result has a short repr, a table in a notebook, a data frame, and a plot that takes and returns axes."""

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

import gradwalk as gw
import gradwalk.torch as gwt
from gradwalk import display
from gradwalk.display import Shown, axes_of, html_table
from gradwalk.report import Finding


def net(depth: int = 50) -> nn.Sequential:
    torch.manual_seed(0)
    layers = [layer for _ in range(depth) for layer in (nn.Linear(8, 8), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(8, 2))


def loss(output: torch.Tensor) -> torch.Tensor:
    return output.square().sum()


def monitor() -> gwt.Monitor:
    model = net(3)
    with gwt.Monitor(model) as recorded:
        loss(model(torch.ones(5, 8))).backward()
        recorded.step()
    return recorded


INPUTS = torch.linspace(-1, 1, 40).reshape(5, 8)
RESULTS = {
    "walks": lambda: gw.simulate("relu", 8, 20, gain=1.6, walks=30, rng=1),
    "walks of blocks": lambda: gw.simulate(gw.residual(gw.dense("relu"), scale=0.1), 8, 20, walks=30, rng=1),
    "description": lambda: gw.describe_gain("relu", 100, 200),
    "estimate": lambda: gw.solve_gain("relu", 100, 200),
    "branches": lambda: gw.branch_scale("relu", 8, 5, walks=50),
    "directions": lambda: gw.directions("relu", 8, 5),
    "advice": lambda: gw.advise("relu", 8, 10, directions=2.0),
    "plan": lambda: gwt.plan(net(), example=INPUTS),
    "probe": lambda: gwt.probe(net(), INPUTS, loss),
    "comparison": lambda: gwt.compare(net(3), INPUTS, loss),
    "calibration": lambda: gwt.calibrate_(net(3), INPUTS, loss),
    "monitor": monitor,
    "record": lambda: monitor().records[0],
    "reproduction": lambda: gw.Reproduction(None, {}, {}, {"C1": Finding("holds", "so it came out")}, None),
}


@pytest.fixture(scope="module", params=RESULTS)
def result(request) -> Shown:
    return RESULTS[request.param]()


def test_the_repr_is_short(result: Shown) -> None:
    assert len(repr(result)) < 200
    assert "\n" not in repr(result)


def test_it_is_a_table_in_a_notebook(result: Shown) -> None:
    text = result._repr_html_()
    assert text.startswith("<table>")
    assert text.count("<tr>") == text.count("</tr>") > 0


def test_it_is_a_data_frame(result: Shown) -> None:
    frame = result.to_pandas()
    assert len(frame) > 0
    assert list(frame.columns) == list(result.columns())


def test_its_plot_takes_and_returns_axes(result: Shown) -> None:
    own = result.plot()
    assert isinstance(own, Axes)
    assert own.has_data()
    mine = Figure().subplots()
    assert result.plot(ax=mine) is mine
    assert mine.has_data()


def test_the_columns_of_walks_are_their_statistics() -> None:
    walks = gw.simulate("tanh", 8, 5, gain=1.1, walks=40, rng=2)
    frame = walks.to_pandas()
    assert frame["layer"].tolist() == [5, 4, 3, 2, 1, 0]
    np.testing.assert_allclose(frame["mean"], walks.log_norm.mean(axis=0))
    np.testing.assert_allclose(frame["p95"], np.quantile(walks.log_norm, 0.95, axis=0))


def test_a_description_without_a_spread_cannot_be_plotted() -> None:
    with pytest.raises(ValueError, match="pass depth="):
        gw.describe_gain("relu", 100).plot()


def test_a_long_table_is_shortened_and_escaped() -> None:
    text = html_table({"name": [f"<{number}>" for number in range(100)]}, "a & b")
    assert text.count("<tr>") == 22
    assert "&lt;99&gt;" in text
    assert "<caption>a &amp; b</caption>" in text


def test_in_a_notebook_the_axes_are_those_of_pyplot(monkeypatch) -> None:
    from matplotlib import pyplot

    before = pyplot.get_fignums()
    axes_of(None)
    assert pyplot.get_fignums() == before
    monkeypatch.setattr(display, "_in_notebook", lambda: True)
    panel = axes_of(None)
    assert panel.figure.number in pyplot.get_fignums()
    pyplot.close(panel.figure)

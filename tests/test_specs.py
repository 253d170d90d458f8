"""The specs of the trained figures: each loads, and its grid is that of the paper or keeps its shape."""

import itertools

import numpy as np
import pytest

from gradwalk import data
from gradwalk.data import Dataset
from gradwalk.figures import FIGURES, SCALES, TrainedFigure
from gradwalk.sweep import Spec

TRAINED = [figure.name for figure in FIGURES if figure.in_paper and isinstance(figure, TrainedFigure)]


@pytest.mark.parametrize(("name", "scale"), list(itertools.product(TRAINED, SCALES)))
def test_every_spec_loads_and_its_networks_can_be_built(name: str, scale: str) -> None:
    spec = Spec.load(FIGURES[name].spec_text(scale))
    assert spec.name == f"Figure {name[3:].upper()}, {scale}"
    width, classes = (1800, 61) if name == "fig4d" else (64, 10) if scale == "smoke" else (784, 10)
    frames = np.zeros((1, width), np.float32)
    split = data.Examples(frames, np.zeros(1, np.int64))
    empty = Dataset(name, split, split, classes, "")
    for run in {run.stacks_with(): run for run in spec.runs()}.values():
        assert len(run.architecture(empty).widths) == run.depth + 1


def grid(name: str, scale: str, *keys: str) -> list[set]:
    runs = Spec.load(FIGURES[name].spec_text(scale)).runs()
    return [{getattr(run, key) for run in runs} for key in keys]


@pytest.mark.parametrize("name", TRAINED)
def test_the_papers_grid_is_what_the_paper_gives(name: str) -> None:
    examples, batch, epochs, decay = grid(name, "paper", "examples", "batch", "epochs", "decay")
    assert (examples, batch, epochs, decay) == ({None}, {100}, {500}, {0.995})
    params, depth, gain, activation = grid(name, "paper", "params", "depth", "gain", "activation")
    assert params == {{"fig4b": 16e6, "fig4c": 62e6}.get(name, 4e6)}
    assert grid(name, "paper", "rate_in") == grid(name, "paper", "rate_out")
    assert activation == ({"tanh", "relu"} if name == "fig3" else {"tanh"})
    given = {"fig4a": {1.05, 1.1, 1.15, 1.2}, "fig4c": {1.05}, "fig4d": {1.1, 1.15, 1.2, 1.25}}
    assert gain == given.get(name, given["fig4a"]) or name == "fig3"
    assert {"fig3": {4, 512}, "fig4a": {2, 16, 32}, "fig4b": {4, 128}, "fig4c": {1000}, "fig4d": {16, 32}}[
        name
    ] <= depth
    count = len(Spec.load(FIGURES[name].spec_text("paper")).runs()) / len(activation)
    assert 300 <= count <= 1000 or name == "fig4c"


@pytest.mark.parametrize("name", TRAINED)
def test_the_laptops_grid_keeps_the_shape_of_the_experiment(name: str) -> None:
    examples, task, data_name, activation = grid(name, "laptop", "examples", "task", "data", "activation")
    assert examples == {10_000}
    assert (task, data_name, activation) == tuple(grid(name, "paper", "task", "data", "activation"))
    for smaller in ("params", "epochs"):
        assert max(grid(name, "laptop", smaller)[0]) < max(grid(name, "paper", smaller)[0])
    depth, gain, rate_in, rate_out = grid(name, "laptop", "depth", "gain", "rate_in", "rate_out")
    assert len(rate_in | rate_out) > 1
    if name == "fig4c":
        assert depth == {1000}
    else:
        assert len(depth) >= 3
        assert max(depth) >= 64
        assert {1.0, 1.4} <= gain if name == "fig3" else gain == grid(name, "paper", "gain")[0]

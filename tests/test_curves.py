"""The curves that `gradwalk train` draws."""

import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

pytest.importorskip("torch")
pytest.importorskip("pydantic")

from gradwalk.figures.curves import draw_curves
from gradwalk.sweep import Result
from gradwalk.train import Epoch, Run

EXAMPLES, HELD_OUT = 1000, 500


def classified(*mistakes: int, diverged: int | None = None, **settings: object) -> Result:
    """A classifier with so many training mistakes after each epoch, and a fifth of them on the held-out split."""
    epochs = [Epoch(epoch, 0.1, count, 0.1, count // 5, 0, 1.0) for epoch, count in enumerate(mistakes, 1)]
    return result("classify", epochs, diverged, settings)


def reconstructed(*losses: float, **settings: object) -> Result:
    """An auto-encoder with these training losses, and twice as much on the held-out split."""
    epochs = [Epoch(epoch, loss, 0, 2 * loss, 0, 0, 1.0) for epoch, loss in enumerate(losses, 1)]
    return result("reconstruct", epochs, None, settings)


def result(task: str, epochs: list[Epoch], diverged: int | None, settings: dict[str, object]) -> Result:
    run = Run(**{"data": "digits", "depth": 4, "task": task} | settings)
    status = "done" if diverged is None else "diverged"
    sizes = {"train_examples": EXAMPLES, "test_examples": HELD_OUT}
    return Result(run, f"{settings}", status, tuple(epochs), diverged, **sizes)


def curves(panel: Axes) -> list[Line2D]:
    return [line for line in panel.get_lines() if line.get_linestyle() != ":"]


def test_both_errors_are_drawn_on_a_logarithmic_axis_with_lines_for_zero_and_for_diverged_runs():
    left, right = draw_curves([classified(50, 0, gain=1.0), classified(50, diverged=2, gain=1.2)]).axes
    assert [left.get_title(), right.get_title()] == ["training error", "held-out error"]
    assert [line.get_ydata().tolist() for line in curves(left)] == [[0.05, 0.0005], [0.05, 2.0]]
    assert curves(right)[0].get_ydata()[0] == pytest.approx(10 / HELD_OUT)
    assert {text.get_text(): text.xy[1] for text in right.texts} == {"0 mistakes": 0.0005, "diverged": 2.0}
    assert (left.get_yscale(), left.get_xlabel(), left.get_ylabel()) == ("log", "epoch", "error")
    assert [text.get_text() for text in right.get_legend().get_texts()] == ["gain 1", "gain 1.2"]


def test_the_error_of_a_reconstruction_is_its_loss():
    left, right = draw_curves([reconstructed(0.5, 0.25, 0.0)]).axes
    assert curves(left)[0].get_ydata().tolist() == [0.5, 0.25, 0.125]  # 0 lies below the smallest error
    assert curves(right)[0].get_ydata().tolist() == [1.0, 0.5, 0.125]
    assert left.get_ylabel() == "error"
    assert right.get_legend() is None


def test_many_curves_have_their_legend_beside_them_with_the_given_labels():
    figure = draw_curves([classified(5, 4, seed=seed) for seed in range(7)], [f"run {place}" for place in range(7)])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [f"run {place}" for place in range(7)]

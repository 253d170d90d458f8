"""Numbers of many tensors at once are those of each tensor by itself."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from helpers.torch_models import generator  # noqa: E402
from torch import nn  # noqa: E402

from gradwalk.torch import monitor, norms  # noqa: E402
from gradwalk.torch.monitor import Monitor  # noqa: E402
from gradwalk.torch.passing import directions_between, directions_of  # noqa: E402

SHAPES = [(9, 4), (12, 3), (9, 4), (9, 2, 3), (9, 4)]


@pytest.fixture(params=[1, 40, 10**6], ids="numbers_{}".format)
def tensors(request, monkeypatch):
    """Return tensors of several shapes and dtypes; stacks hold one, one or two, or all of a shape."""
    monkeypatch.setattr(norms, "_NUMBERS", request.param)
    drawn = [torch.randn(shape, generator=generator(n)) for n, shape in enumerate(SHAPES)]
    return [*drawn, drawn[0].double() * 1e-160, drawn[0] * (1 + 2j)]


def test_stacks_hold_every_tensor_once(tensors):
    held = [
        (place, torch.equal(stack[n], tensors[place]))
        for places, stack in norms.stacks(tensors)
        for n, place in enumerate(places)
    ]
    assert sorted(held) == [(place, True) for place in range(len(tensors))]


def test_mean_squares_are_those_of_each_tensor(tensors):
    alone = [float(norms.doubled(each).square().mean()) for each in tensors]
    assert norms.mean_squares(tensors) == pytest.approx(alone, rel=1e-12, abs=0)


def test_example_norms_are_those_of_each_tensor(tensors):
    alone = [norms.example_norms(each, 3).numpy() for each in tensors]
    assert np.allclose(
        norms.all_example_norms(norms.row_norms(tensors), 3), np.stack(alone, axis=1), rtol=1e-12, atol=0
    )


def test_directions_are_those_of_each_tensor_and_unknown_where_rows_are_no_vectors(tensors):
    directions = directions_between(tensors)
    assert np.isnan(directions).tolist() == [False, False, False, True, False, False, True]
    for place in (0, 1, 2, 4, 5):
        assert directions[place] == pytest.approx(directions_of(tensors[place]), rel=1e-5)


def test_a_monitor_records_the_same_however_many_gradients_wait(monkeypatch):
    net = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))
    x, records = torch.randn(10, 5, generator=generator(0)), []
    for waiting in (0, 70, 10**6):
        monkeypatch.setattr(monitor, "_WAITING", waiting)
        with Monitor(net, 1) as watch:
            net(x).square().sum().backward()
            records.append(watch.step())
    for record in records[1:]:
        assert record.layers == ("0", "2", "4")
        for name in ("log_norm", "spread", "directions"):
            assert getattr(record, name) == pytest.approx(getattr(records[0], name), rel=1e-5)
            assert not math.isnan(getattr(record, name)[0])

"""Numbers of many tensors at once are those of each tensor by itself."""

import math
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from helpers.torch_models import generator  # noqa: E402
from torch import nn  # noqa: E402

from gradwalk.torch import monitor, norms, probe  # noqa: E402
from gradwalk.torch.monitor import Monitor  # noqa: E402
from gradwalk.torch.passing import Rows, directions_between, directions_of  # noqa: E402

SHAPES = [(9, 4), (12, 3), (9, 4), (9, 2, 3), (9, 4)]


@pytest.fixture(params=[1, 40, 10**6], ids="numbers_{}".format)
def tensors(request, monkeypatch):
    """Return tensors of several shapes and dtypes; stacks hold one, one or two, or all of a shape."""
    for function in (norms.parts, norms.Rooms.__init__):
        monkeypatch.setattr(function, "__defaults__", (request.param,))
    monkeypatch.setattr(norms, "_OWN", threading.local())
    drawn = [torch.randn(shape, generator=generator(n)) for n, shape in enumerate(SHAPES)]
    return [*drawn, drawn[0].double() * 1e-160, drawn[0] * (1 + 2j)]


def test_stacks_hold_every_tensor_once(tensors):
    held = [
        (place, torch.equal(stack[n], tensors[place]))
        for places, stack in norms.stacks(tensors)
        for n, place in enumerate(places)
    ]
    assert sorted(held) == [(place, True) for place in range(len(tensors))]


def rounding(tensor):
    """The relative error of a norm: squares of single-precision numbers are added in single precision."""
    return 5e-7 if tensor.dtype in (torch.float32, torch.complex64) else 1e-12


def test_mean_squares_are_those_of_each_tensor(tensors):
    for tensor, square in zip(tensors, norms.mean_squares(tensors), strict=True):
        alone = float(norms.doubled(tensor).square().mean())
        assert square == pytest.approx(alone, rel=2 * rounding(tensor), abs=0)


@pytest.mark.parametrize("numbers", [2**16, 2**16 + 1, 2**22])
def test_mean_squares_have_six_digits_however_large_the_tensors(numbers):
    tensors = [torch.randn(numbers, generator=generator(n)) for n in range(2)]
    expected = [float(norms.doubled(tensor).square().mean()) for tensor in tensors]
    np.testing.assert_allclose(norms.mean_squares(tensors), expected, rtol=2e-6, atol=0)


def test_example_norms_are_those_of_each_tensor(tensors):
    together = norms.row_norms(tensors).per_example(3)
    for tensor, column in zip(tensors, together.T, strict=True):
        alone = norms.doubled(tensor).reshape(3, -1).norm(dim=1).numpy()
        np.testing.assert_allclose(column, alone, rtol=rounding(tensor), atol=0)
        np.testing.assert_allclose(norms.example_norms(tensor, 3).numpy(), alone, rtol=rounding(tensor), atol=0)


@pytest.mark.parametrize("size", [0.0, 1e-44, 1e-30, 1e-13, 1e-11, 1.0, 1e11, 1e13, 1e30])
@pytest.mark.parametrize("shape", [(3, 1), (2, 3, 10), (3, 4096), (3, 4097), (2, 2, 20_000), (1, 3_000_000)])
def test_norms_of_single_precision_have_six_digits_however_long_the_rows_and_small_or_large_the_numbers(shape, size):
    rows = torch.randn(shape, generator=generator(1)) * size
    found, expected = norms.norms_of(rows), torch.linalg.vector_norm(rows.double(), dim=-1)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, expected, rtol=5e-7, atol=0.0)


def test_rows_of_zeros_and_rows_that_are_not_finite_leave_the_norms_of_the_others_as_they_are():
    rows = torch.randn(4, 9000, generator=generator(2))
    whole = rows[0].double().norm().item()
    rows[1], rows[2, 5], rows[3, 4] = 0.0, math.inf, math.nan
    assert norms.norms_of(rows).tolist() == pytest.approx([whole, 0.0, math.inf, math.nan], rel=1e-12, nan_ok=True)


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


def test_memory_that_is_kept_is_bounded_and_what_is_in_use_stays():
    rooms = norms.Rooms(1000)
    first = rooms.stacked("a", [torch.full((10,), float(k)) for k in range(3)], torch.float32)
    for width in range(1, 100):
        rooms.stacked("b", [torch.ones(width)] * (1000 // width), torch.float32)
    assert rooms.held <= 8 * 1000
    assert first[:, 0].tolist() == [0.0, 1.0, 2.0]


def test_a_stack_larger_than_what_is_kept_is_not_kept_and_leaves_the_others():
    rooms = norms.Rooms(1000)
    few = rooms.stacked("a", [torch.ones(10)], torch.float32)
    many = rooms.stacked("b", [torch.full((8001,), 2.0)], torch.float32)
    assert many.sum() == 2 * 8001
    assert rooms.held == 10
    assert rooms.stacked("a", [torch.zeros(10)], torch.float32).data_ptr() == few.data_ptr()


def test_a_larger_stack_of_the_same_name_and_shape_takes_the_place_of_the_smaller_one():
    rooms = norms.Rooms(1000)
    kept = rooms.stacked("a", [torch.ones(10)], torch.float32)
    for number in range(1, 101):  # 50 500 numbers in all
        rooms.stacked("b", [torch.ones(10)] * number, torch.float32)
    assert rooms.held == 10 + 1000
    assert rooms.stacked("a", [torch.zeros(10)], torch.float32).data_ptr() == kept.data_ptr()


def test_a_probe_of_large_tensors_leaves_no_more_in_the_thread_than_is_kept(monkeypatch):
    monkeypatch.setattr(norms, "_OWN", threading.local())
    net = nn.Sequential(nn.Linear(4, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 4))
    probe(net, torch.randn(8192, 4, generator=generator(0)), lambda y: y.square().mean())
    assert norms.rooms_of_thread().held <= 8 * 2**18


MODES = {"inference": torch.inference_mode, "no_grad": torch.no_grad, "plain": torch.enable_grad}


@pytest.mark.parametrize("first", MODES)
@pytest.mark.parametrize("second", MODES)
def test_what_is_measured_does_not_depend_on_the_modes_of_this_run_and_the_one_before(first, second, monkeypatch):
    monkeypatch.setattr(norms, "_OWN", threading.local())
    net = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(16, 16), nn.Tanh())])
    x = torch.randn(10, 16, generator=generator(3))
    walks = []
    for mode, training in ((first, True), (second, False), (first, True)):
        with MODES[mode]():
            walks.append(probe(net.train(training), x, lambda y: y.square().mean()))
    for walk in walks[1:]:
        for name in ("log_norm", "predicted", "directions", "signal_directions", "relative"):
            np.testing.assert_array_equal(getattr(walk, name), getattr(walks[0], name))


@pytest.mark.parametrize("shape", [(9, 4), (9, 2, 3), (9,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_rows_of_any_shape_are_measured_in_the_memory_that_is_passed(shape, dtype, monkeypatch):
    monkeypatch.setattr(norms, "_OWN", threading.local())
    rooms = norms.Rooms(1000)
    Rows([torch.ones(shape, dtype=dtype)] * 3, rooms)
    assert rooms.held
    assert not norms.rooms_of_thread().held


def test_each_thread_has_memory_of_its_own():
    found = []
    thread = threading.Thread(target=lambda: found.append(norms.rooms_of_thread()))
    thread.start()
    thread.join()
    assert found[0] is not norms.rooms_of_thread() is norms.rooms_of_thread()
